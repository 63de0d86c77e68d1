// Package backup has the commands "holdfast snapshot", which save and verify backups of a cluster.
package backup

import (
	"github.com/spf13/cobra"

	"holdfast/cmd/holdfast/internal/cli"
)

// New returns the commands.
func New(env *cli.Env) []*cobra.Command {
	return []*cobra.Command{cli.Group("snapshot", "Save and verify backups of the cluster's state",
		newSave(env), newVerify(env))}
}
