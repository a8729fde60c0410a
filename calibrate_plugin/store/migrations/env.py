"""Run by alembic. The connection and its transaction belong to whoever opens the store."""

from alembic import context

from calibrate_plugin.store.schema import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
