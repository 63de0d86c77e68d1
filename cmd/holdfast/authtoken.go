package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/auth"
	"holdfast/cmd/internal/arg"
)

// newTokenView is a new token in JSON: the only output that shows one.
type newTokenView struct {
	Token string `json:"token"`
	Line  string `json:"line"`
}

// nameView is an entry of a file of tokens and certificates in JSON. It has no secret, and no digest either.
type nameView struct {
	Name    string   `json:"name"`
	Roles   []string `json:"roles"`
	Expires string   `json:"expires,omitempty"`
	Expired bool     `json:"expired,omitempty"`
}

func (c *cli) authToken() *cobra.Command {
	return group("token", "Make and check the bearer tokens that nodes take",
		c.authTokenNew(), c.authTokenShow(), c.authTokenVerify())
}

func (c *cli) authTokenNew() *cobra.Command {
	var roles []string
	var lasts time.Duration
	cmd := &cobra.Command{
		Use: "new NAME --role ROLE", Short: "Make a bearer token, and the line of the nodes' auth_file for it",
		Long: `Make a bearer token, and the line of the nodes' auth_file for it.

The token is printed once and kept nowhere: give it to whoever is to use it, in a file that nobody
else reads. The line holds only a digest of it. Put the line under "tokens:" in the auth_file of
every node; nodes read the file again within 5 seconds.

Roles: client (its own sessions, and the tree by its access lists), reader (listings, metrics),
operator (also drains nodes and ends sessions), admin (everything).`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			set, err := auth.ParseRoles(roles)
			if err != nil {
				return usage("--role: %w", err)
			}
			var expires time.Time
			if lasts > 0 {
				expires = time.Now().Add(lasts)
			}
			token := auth.NewToken()
			line, err := auth.Line(args[0], token.Digest(), set, expires)
			if err != nil {
				return usage("%w", err)
			}
			return c.out.print(newTokenView{token.Secret(), line}, func() string {
				return "token  " + token.Secret() + "\nline   " + line + "\n"
			})
		},
	}
	cmd.Flags().StringSliceVar(&roles, "role", nil, "client, reader, operator or admin; may be given more than once")
	cmd.Flags().Var(arg.NotNegative(&lasts, 0), "expires-in", "how long the token is good, such as 2160h; 0 is for ever")
	completeWords(cmd, "role", auth.AnyRole.Names()...)
	return cmd
}

func (c *cli) authTokenShow() *cobra.Command {
	return &cobra.Command{
		Use: "show FILE", Short: "Check an auth_file, and show its names and roles",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			book, err := readBook(args[0])
			if err != nil {
				return err
			}
			entries := book.Entries()
			slices.SortFunc(entries, func(a, b auth.Identity) int { return cmp.Compare(a.Name, b.Name) })
			views := make([]nameView, 0, len(entries))
			rows := make([][]string, 0, len(entries))
			for _, e := range entries {
				v := viewName(e, time.Now())
				views = append(views, v)
				expires := cmp.Or(v.Expires, "never")
				if v.Expired {
					expires += " (expired)"
				}
				rows = append(rows, []string{v.Name, strings.Join(v.Roles, ","), expires})
			}
			return c.out.print(views, func() string { return columns([]string{"NAME", "ROLES", "EXPIRES"}, rows) })
		},
	}
}

func (c *cli) authTokenVerify() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "verify --file FILE", Short: "Say whose token it is, by an auth_file",
		Long: `Say whose token it is, by an auth_file, without asking a node. The token is that of --auth-token-file
or ` + authTokenFileVariable + `, or of ` + authTokenVariable + `.`,
		Args: arg.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			source := c.target.tokenSource()
			if source == nil {
				return usage("no token given: want --auth-token-file or %s", authTokenVariable)
			}
			id, err := whose(cmd.Context(), source, file)
			if err != nil {
				return err
			}
			v := viewName(id, time.Now())
			return c.out.print(v, func() string {
				return fmt.Sprintf("name     %s\nroles    %s\nexpires  %s\n", v.Name, strings.Join(v.Roles, ","),
					cmp.Or(v.Expires, "never"))
			})
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "the auth_file of a node")
	return cmd
}

// whose returns whose token a source has. Its errors do not show the token.
func whose(ctx context.Context, source func(context.Context) (string, error), file string) (auth.Identity, error) {
	text, err := source(ctx)
	if err != nil {
		return auth.Identity{}, err
	}
	token, err := auth.ParseToken(text)
	if err != nil {
		return auth.Identity{}, err
	}
	book, err := readBook(file)
	if err != nil {
		return auth.Identity{}, err
	}
	switch id, why := book.Token(token, time.Now()); why {
	case auth.Accepted:
		return id, nil
	case auth.Expired:
		return auth.Identity{}, errors.New("the token has expired")
	case auth.Unknown:
	}
	return auth.Identity{}, errors.New("no entry of the file is of this token")
}

// readBook reads an auth_file.
func readBook(path string) (*auth.Book, error) {
	if path == "" {
		return nil, usage("no file given: want the auth_file of a node")
	}
	info, err := os.Stat(path)
	if err == nil && info.Size() > auth.MaxFileBytes {
		err = fmt.Errorf("%s is larger than %d bytes", path, auth.MaxFileBytes)
	}
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	book, err := auth.Parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return book, nil
}

func viewName(id auth.Identity, now time.Time) nameView {
	v := nameView{Name: id.Name, Roles: id.Roles.Names()}
	if !id.Expires.IsZero() {
		v.Expires, v.Expired = id.Expires.Format(time.RFC3339), !now.Before(id.Expires)
	}
	return v
}
