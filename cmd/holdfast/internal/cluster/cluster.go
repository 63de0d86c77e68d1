// Package cluster has the commands "holdfast cluster", which show and change the nodes of a cluster, and "ping" and
// "top", which measure them.
package cluster

import (
	"github.com/spf13/cobra"

	"holdfast/cmd/holdfast/internal/cli"
)

// New returns the commands.
func New(env *cli.Env) []*cobra.Command {
	return []*cobra.Command{
		cli.Group("cluster", "Show and change the nodes of the cluster",
			newStatus(env), newMembers(env), newConnections(env), newWatch(env),
			newAdd(env), newPromote(env), newDemote(env), newRemove(env), newTransferLeader(env),
			newDrain(env), newUndrain(env), newFreeze(env), newThaw(env)),
		newPing(env), newTop(env),
	}
}
