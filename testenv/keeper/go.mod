// The keeper has no dependencies, so it builds where the servers come from elsewhere.
module pillion.dev/testenv/keeper

go 1.24
