// Package auth has the commands "holdfast auth" and "holdfast cert": bearer tokens and certificates.
package auth

import (
	"github.com/spf13/cobra"

	"holdfast/cmd/holdfast/internal/cli"
)

// New returns the commands.
func New(env *cli.Env) []*cobra.Command {
	cert := cli.Group("cert", "Make certificates for tests and small sites, and show them",
		newCA(env), newNode(env), newClient(env), newAdmin(env), newShowCert(env))
	cert.Long = certHelp
	cert.Example = certExample
	return []*cobra.Command{
		cli.Group("auth", "Make and check bearer tokens",
			cli.Group("token", "Make and check bearer tokens", newNew(env), newShow(env), newVerify(env))),
		cert,
	}
}
