// Package id has the commands "holdfast id", which decode, encode, make and allocate ids.
package id

import (
	"github.com/spf13/cobra"

	"holdfast/cmd/holdfast/internal/cli"
)

// New returns the commands.
func New(env *cli.Env) []*cobra.Command {
	return []*cobra.Command{cli.Group("id", "Decode, encode, make and allocate ids",
		newDecode(env), newEncode(env), newNew(env), newZXID(env), newAllocate(env))}
}
