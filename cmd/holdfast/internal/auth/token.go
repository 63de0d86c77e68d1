package auth

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
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/internal/arg"
)

// newTokenView is a new token in JSON. No other output shows a bearer token.
type newTokenView struct {
	Token string `json:"token"`
	Line  string `json:"line"`
}

// nameView is an entry of an auth_file in JSON, without secret and digest.
type nameView struct {
	Name    string   `json:"name"`
	Roles   []string `json:"roles"`
	Expires string   `json:"expires,omitempty"`
	Expired bool     `json:"expired,omitempty"`
}

// newFlags are the flags of "auth token new".
type newFlags struct {
	roles     []string
	expiresIn time.Duration
}

func newNew(env *cli.Env) *cobra.Command {
	var f newFlags
	cmd := &cobra.Command{
		Use: "new NAME --role ROLE", Short: "Make a bearer token, and the line of the nodes' auth_file for it",
		Long: `Make a bearer token, and the line of the nodes' auth_file for it.

The token is printed once and stored nowhere: give it to its user in a file that no other user can
read. The line has only a digest of the token. Put the line under "tokens:" in the auth_file of
every node; nodes read the file again within 5 seconds.

Roles: client (its own sessions, and the tree by its access lists), reader (listings, metrics),
operator (also drains nodes and kills sessions), admin (everything).`,
		Args: cobra.ExactArgs(1),
		RunE: cli.Run(env, &f, runNew),
	}
	cmd.Flags().StringSliceVar(&f.roles, "role", nil, "client, reader, operator or admin; may be given more than once")
	cmd.Flags().Var(arg.NotNegative(&f.expiresIn, 0), "expires-in",
		"lifetime of the token, such as 2160h; 0 for no expiry")
	cli.CompleteWords(cmd, "role", auth.AnyRole.Names()...)
	return cmd
}

func runNew(_ context.Context, env *cli.Env, f *newFlags, args []string) error {
	set, err := auth.ParseRoles(f.roles)
	if err != nil {
		return cli.Usage("--role: %w", err)
	}
	var expires time.Time
	if f.expiresIn > 0 {
		expires = time.Now().Add(f.expiresIn)
	}
	token := auth.NewToken()
	line, err := auth.Line(args[0], token.Digest(), set, expires)
	if err != nil {
		return cli.Usage("%w", err)
	}
	return env.Out.Print(newTokenView{token.Secret(), line}, func() string {
		return "token  " + token.Secret() + "\nline   " + line + "\n"
	})
}

func newShow(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "show FILE", Short: "Check an auth_file, and show its names and roles",
		Args: cobra.ExactArgs(1),
		RunE: cli.Run(env, &cli.NoFlags{}, runShow),
	}
}

func runShow(_ context.Context, env *cli.Env, _ *cli.NoFlags, args []string) error {
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
	return env.Out.Print(views, func() string { return cli.Table([]string{"NAME", "ROLES", "EXPIRES"}, rows) })
}

// verifyFlags are the flags of "auth token verify".
type verifyFlags struct{ file string }

func newVerify(env *cli.Env) *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use: "verify --file FILE", Short: "Look a token up in an auth_file",
		Long: `Look a token up in an auth_file, without asking a node, and show its name, roles and expiry. The
token is that of --auth-token-file or ` + cli.AuthTokenFileVariable + `, or of ` +
			cli.AuthTokenVariable + `.`,
		Args: arg.None,
		RunE: cli.Run(env, &f, runVerify),
	}
	cmd.Flags().StringVar(&f.file, "file", "", "the auth_file of a node")
	return cmd
}

func runVerify(ctx context.Context, env *cli.Env, f *verifyFlags, _ []string) error {
	source := env.Cluster.BearerToken()
	if source == nil {
		return cli.Usage("no token given: want --auth-token-file or %s", cli.AuthTokenVariable)
	}
	id, err := lookUp(ctx, source, f.file)
	if err != nil {
		return err
	}
	v := viewName(id, time.Now())
	return env.Out.Print(v, func() string {
		return fmt.Sprintf("name     %s\nroles    %s\nexpires  %s\n", v.Name, strings.Join(v.Roles, ","),
			cmp.Or(v.Expires, "never"))
	})
}

// lookUp returns the identity of a token. Its errors do not show the token.
func lookUp(ctx context.Context, source func(context.Context) (string, error), file string) (auth.Identity, error) {
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
	return auth.Identity{}, errors.New("the file has no entry for this token")
}

// readBook reads an auth_file.
func readBook(path string) (*auth.Book, error) {
	if path == "" {
		return nil, cli.Usage("no file given: want the auth_file of a node")
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
