// Package tree has the commands for the tree of entries, such as "holdfast create" and "holdfast watch".
package tree

import (
	"github.com/spf13/cobra"

	"holdfast/cmd/holdfast/internal/cli"
)

// New returns the commands.
func New(env *cli.Env) []*cobra.Command {
	return cli.WithDigest(env,
		newGet(env), newList(env), newTree(env), newCreate(env), newSet(env), newRemove(env), newTxn(env),
		newWatch(env),
		cli.Group("acl", "Show and set access lists of the tree", newACLGet(env), newACLSet(env)),
		cli.Group("quota", "Show, set and remove quotas of the tree",
			newQuotaGet(env), newQuotaSet(env), newQuotaRemove(env)),
		cli.Group("import", "Copy the tree of another system into the cluster", newImportZooKeeper(env)))
}
