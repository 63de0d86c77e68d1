package tree

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/tree"
)

// grantForm describes the form of a grant.
const grantForm = "SCHEME:ID:PERMISSIONS as in world:anyone:r or auth::cdrwa"

// parseGrants reads grants. Without any, the list is nil: the inherited one.
func parseGrants(words []string) (tree.ACL, error) {
	var acl tree.ACL
	for _, w := range words {
		g, ok := parseGrant(w)
		if !ok {
			return nil, cli.Usage("grant %q: want %s; permissions are letters: r read, w write, c create, d delete, a admin", w,
				grantForm)
		}
		acl = append(acl, g)
	}
	return acl, nil
}

// parseGrant reads a grant. The id may have colons.
func parseGrant(word string) (tree.Grant, bool) {
	scheme, rest, _ := strings.Cut(word, ":")
	at := strings.LastIndexByte(rest, ':')
	if at < 0 || at == len(rest)-1 {
		return tree.Grant{}, false
	}
	g := tree.Grant{Scheme: scheme, ID: rest[:at]}
	for _, letter := range rest[at+1:] {
		p, known := map[rune]tree.Permissions{
			'r': tree.Read, 'w': tree.Write, 'c': tree.CreateChild, 'd': tree.DeleteChild, 'a': tree.Admin,
		}[letter]
		if !known {
			return tree.Grant{}, false
		}
		g.Permissions |= p
	}
	return g, true
}

// grantText is the form of a grant that [parseGrant] reads.
func grantText(g tree.Grant) string { return g.Scheme + ":" + g.ID + ":" + g.Permissions.String() }

// listView is an access list in JSON.
type listView struct {
	Path   string   `json:"path"`
	Grants []string `json:"grants"`
	// Inherited reports that the list is that of an entry above.
	Inherited bool  `json:"inherited,omitempty"`
	Version   int64 `json:"version"`
}

// aclGetFlags are the flags of "aclGet".
type aclGetFlags struct {
	reads cli.ReadFlags
}

func newACLGet(env *cli.Env) *cobra.Command {
	var f aclGetFlags
	cmd := &cobra.Command{
		Use: "get PATH", Short: "Show the access list that applies to an entry of the tree", Args: cli.OnePath,
		Long: `Show the access list that applies to an entry of the tree: its own, or that of the nearest ancestor
that has one. Clients without the permission a do not see the hashes of passwords.`,
		RunE: cli.Run(env, &f, runACLGet),
	}
	f.reads.Register(cmd, env.Cluster)
	return cmd
}

func runACLGet(ctx context.Context, env *cli.Env, f *aclGetFlags, args []string) error {
	return env.Cluster.Call(ctx, func(ctx context.Context, cl *client.Client) error {
		list, err := cl.Tree(f.reads.Options()...).GetACL(ctx, args[0])
		if err != nil {
			return err
		}
		v := listView{
			Path: args[0], Grants: []string{}, Inherited: list.Inherited, Version: list.Stat.ACLVersion,
		}
		var rows [][]string
		for _, g := range list.ACL {
			v.Grants = append(v.Grants, grantText(g))
			rows = append(rows, []string{"grant", grantText(g)})
		}
		rows = append(rows, []string{"inherited", cli.YesNo(v.Inherited)},
			[]string{"version", strconv.FormatInt(v.Version, 10)})
		return env.Out.Print(v, func() string { return cli.Properties(rows) })
	})
}

// aclSetFlags are the flags of "aclSet".
type aclSetFlags struct {
	version versionFlag
	inherit bool
}

func newACLSet(env *cli.Env) *cobra.Command {
	var f aclSetFlags
	cmd := &cobra.Command{
		Use: "set PATH GRANT...", Short: "Replace the access list of an entry of the tree",
		Args: func(cmd *cobra.Command, args []string) error {
			if f.inherit && len(args) != 1 || !f.inherit && len(args) < 2 {
				return cli.Usage("%q takes a PATH and one GRANT or more, or a PATH and --inherit", cmd.CommandPath())
			}
			return cli.CheckPath(args[0])
		},
		Long: `Replace the access list of an entry of the tree. With --inherit, remove the list: then the list of
the nearest ancestor applies.

A GRANT is SCHEME:ID:PERMISSIONS, where permissions are letters: r reads data, lists children and
watches, w sets the data, c creates children, d removes children, a sets the list. world:anyone is
every client, digest:NAME:HASH a client with a password, ip:ADDRESS or ip:NETWORK a client at that
address, and x509:SUBJECT a client certificate. "auth:" means all passwords and certificates of
this command. When no grant has the permission a, no client but super can change the list again.

` + cli.WriteHelp,
		Example: `  holdfast acl set /app world:anyone:r auth::cdrwa --digest ops:secret
  holdfast acl set /app/jobs --inherit`,
		RunE: cli.Run(env, &f, runACLSet),
	}
	f.version.add(cmd, "the list")
	cmd.Flags().BoolVar(&f.inherit, "inherit", false, "remove the entry's own list")
	return cmd
}

func runACLSet(ctx context.Context, env *cli.Env, f *aclSetFlags, args []string) error {
	acl, err := parseGrants(args[1:])
	if err != nil {
		return err
	}
	return env.Write(ctx, func(ctx context.Context, t *client.Tree) error {
		changed, err := cli.Timed(ctx, env.Cluster, func(ctx context.Context) (client.Changed, error) {
			return t.SetACL(ctx, args[0], acl, f.version.option())
		})
		if err != nil {
			return err
		}
		v := changeView{Path: args[0], Stamp: changed.Stamp.String(), Stat: viewStat(changed.Stat)}
		return env.Out.Print(v, func() string { return fmt.Sprintf("list version %d", changed.Stat.ACLVersion) })
	})
}
