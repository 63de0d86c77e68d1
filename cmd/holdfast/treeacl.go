package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/tree"
)

// grantForm is the form of a grant.
const grantForm = "SCHEME:ID:PERMISSIONS as in world:anyone:r or auth::cdrwa"

// parseGrants reads grants. Without any, the list is nil: the inherited one.
func parseGrants(words []string) (tree.ACL, error) {
	var acl tree.ACL
	for _, w := range words {
		g, ok := parseGrant(w)
		if !ok {
			return nil, usage("grant %q: want %s; permissions are of r read, w write, c create, d delete, a admin", w,
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
	// Inherited says that the list is that of an entry above.
	Inherited bool  `json:"inherited,omitempty"`
	Version   int64 `json:"version"`
}

func (c *treeCommands) aclGet() *cobra.Command {
	reads := readFlags{target: c.target}
	cmd := &cobra.Command{
		Use: "get PATH", Short: "Print the access list in force for an entry of the tree", Args: onePath,
		Long: `Print the access list in force for an entry of the tree: its own, or that of the nearest entry
above that has one. The hashes of passwords are hidden from clients without the permission a.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.target.call(cmd.Context(), func(ctx context.Context, cl *client.Client) error {
				list, err := cl.Tree(reads.options()...).GetACL(ctx, args[0])
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
				rows = append(rows, []string{"inherited", yes(v.Inherited)},
					[]string{"version", strconv.FormatInt(v.Version, 10)})
				return c.out.print(v, func() string { return properties(rows) })
			})
		},
	}
	reads.add(cmd)
	return c.ofTree(cmd)
}

func (c *treeCommands) aclSet() *cobra.Command {
	var version versionFlag
	var inherit bool
	cmd := &cobra.Command{
		Use: "set PATH GRANT...", Short: "Replace the access list of an entry of the tree",
		Args: func(cmd *cobra.Command, args []string) error {
			if inherit && len(args) != 1 || !inherit && len(args) < 2 {
				return usage("%q takes a PATH and one GRANT or more, or a PATH and --inherit", cmd.CommandPath())
			}
			return pathGiven(args[0])
		},
		Long: `Replace the access list of an entry of the tree, or with --inherit take it away: then the list of
the nearest entry above counts.

A GRANT is SCHEME:ID:PERMISSIONS, where permissions are letters: r read data, list children and
hear of changes, w set the data, c make children, d remove children, a set the list. world:anyone
is everybody, digest:NAME:HASH is who has a password, ip:ADDRESS or ip:NETWORK is who connects
from there, and x509:SUBJECT is a certificate. "auth:" stands for all passwords and certificates
of this command. Whoever takes a from everybody cannot give it back.

` + writeHelp,
		Example: `  holdfast acl set /app world:anyone:r auth::cdrwa --digest ops:secret
  holdfast acl set /app/jobs --inherit`,
		RunE: func(cmd *cobra.Command, args []string) error {
			acl, err := parseGrants(args[1:])
			if err != nil {
				return err
			}
			return c.writing(cmd.Context(), func(ctx context.Context, t *client.Tree) error {
				changed, err := limited(ctx, c.target, func(ctx context.Context) (client.Changed, error) {
					return t.SetACL(ctx, args[0], acl, version.option())
				})
				if err != nil {
					return err
				}
				v := changeView{Path: args[0], Stamp: changed.Stamp.String(), Stat: viewStat(changed.Stat)}
				return c.out.print(v, func() string { return fmt.Sprintf("list version %d", changed.Stat.ACLVersion) })
			})
		},
	}
	version.add(cmd, "the list")
	cmd.Flags().BoolVar(&inherit, "inherit", false, "take the entry's own list away")
	return c.ofTree(cmd)
}
