package main

import (
	"context"
	"maps"
	"slices"

	"holdfast/client"
)

// ofPrincipal returns the sessions of a caller's connections. It complains of what is missing.
func ofPrincipal(ctx context.Context, c *cli, cl *client.Client, principal string) (chosenSessions, error) {
	found, err := onePage(ctx, c.target, func(ctx context.Context) (client.SessionsOfCaller, error) {
		return client.SessionsOf(ctx, cl, principal)
	})
	if err != nil {
		return chosenSessions{}, err
	}
	for _, node := range slices.Sorted(maps.Keys(found.Silent)) {
		c.out.complain("holdfast: node %d did not answer, and its sessions are missing: %s\n", node,
			oneLine(found.Silent[node]))
	}
	if found.Claimed > 0 {
		c.out.complain("holdfast: %d connections say that they are %q, and nothing proves it: their sessions are left out\n",
			found.Claimed, principal)
	}
	if found.More > 0 {
		c.out.complain("holdfast: %d more sessions are not in this list: run the command again afterwards\n", found.More)
	}
	return chosenSessions{ids: found.IDs, incomplete: len(found.Silent) > 0}, nil
}
