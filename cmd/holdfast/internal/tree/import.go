package tree

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/internal/arg"
	"holdfast/cmd/internal/migrate"
	"holdfast/session/words"
	"holdfast/tree"
)

const (
	// sourceAuthVariable has the credentials for the source of an import.
	sourceAuthVariable = "HOLDFAST_SOURCE_AUTH"
	// zookeeperPort is where ZooKeeper serves clients unless its connect string says otherwise.
	zookeeperPort = "2181"
	// importTimeout is the timeout of the session that writes an import.
	importTimeout = 30 * time.Second
	// importCallTimeout bounds the wait for a source or cluster that does not answer.
	importCallTimeout = time.Minute
	// importLine is the time between two lines of progress when the output is no terminal.
	importLine = 10 * time.Second
	// shownProblems bounds the problems in the text for people.
	shownProblems = 20
)

// importFlags are the flags of "import zookeeper".
type importFlags struct {
	to          string
	auth        []string
	tls         migrate.TLS
	options     migrate.Options
	maxVersion  uint64
	maxCounters uint64
}

func newImportZooKeeper(env *cli.Env) *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use: "zookeeper CONNECT-STRING", Short: "Copy a live tree of a ZooKeeper", Args: arg.One("CONNECT-STRING"),
		Long: `Copy the tree of a ZooKeeper ensemble into the cluster while its clients continue, then compare the
two trees. The connect string has ZooKeeper's form, host:port,host:port/chroot. The entries below
the chroot are copied below --to.

The copy keeps data, access lists, the versions of both, and the counters of sequential names. It
skips and counts ephemerals, and skips /zookeeper. It does not keep stamps, times, TTLs and
containers: see docs/zookeeper.md.

An interrupted copy continues when the command runs again: equal entries are skipped. An entry
that differs is a conflict, and is left too unless --overwrite is given. The exit code is 0 only if
both trees are equal in the end.

Access lists hold for this command as well. Give --source-auth and --digest with the super of each
side where they do not allow everybody everything. A source that serves TLS (secureClientPort) takes
--source-cacert, and --source-cert unless it asks for no certificates.`,
		Example: `  holdfast import zookeeper zk1:2181,zk2:2181,zk3:2181
  holdfast import zookeeper zk1:2181/app --to /app --overwrite --delete
  holdfast import zookeeper zk1:2181 --verify-only -o json
  holdfast import zookeeper zk1:2281 --source-cacert ca.pem --source-cert me.pem --source-key me.key`,
		RunE: cli.Run(env, &f, runImportZooKeeper),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.to, "to", tree.Root, "path of the cluster's tree for the source's root")
	flags.StringArrayVar(&f.auth, "source-auth", nil, "SCHEME:ID for the source, as in digest:super:PASSWORD; may be "+
		"repeated (environment, which other users of the machine cannot see: "+sourceAuthVariable+")")
	flags.StringVar(&f.tls.CACert, "source-cacert", "",
		"speak TLS with a source whose certificates these CAs sign, a PEM file")
	flags.StringVar(&f.tls.Cert, "source-cert", "", "speak TLS with the source by this certificate, a PEM file")
	flags.StringVar(&f.tls.Key, "source-key", "", "private key of --source-cert, a PEM file")
	flags.StringVar(&f.tls.ServerName, "source-server-name", "",
		"name that the source's certificates must have (default: the host of each address)")
	flags.BoolVar(&f.options.VerifyOnly, "verify-only", false, "compare without changes")
	flags.BoolVar(&f.options.Overwrite, "overwrite", false, "replace data and access lists that differ")
	flags.BoolVar(&f.options.Delete, "delete", false, "remove persistent entries that the source does not have")
	flags.Var(arg.Whole(&f.options.InFlight, migrate.MaxInFlight, 1, migrate.MaxInFlight), "in-flight",
		"maximum number of concurrent requests")
	flags.Var(arg.Whole(&f.maxVersion, 1000, 0, 1_000_000), "max-version",
		"highest version that is kept: each costs a write; an entry with a higher one begins at 0")
	flags.Var(arg.Whole(&f.maxCounters, 1_000_000, 0, 1_000_000_000), "max-counter",
		"how far the counter of sequential names below an entry may be raised: each step costs two writes")
	cmd.MarkFlagsMutuallyExclusive("verify-only", "overwrite")
	cmd.MarkFlagsMutuallyExclusive("verify-only", "delete")
	return cmd
}

// source opens a session of the ZooKeeper ensemble.
func (f *importFlags) source(ctx context.Context, env *cli.Env, connect string) (*migrate.ZooKeeper, error) {
	at, err := parseZooKeeper(connect)
	if err != nil {
		return nil, cli.Usage("%w", err)
	}
	if given := env.Getenv(sourceAuthVariable); len(f.auth) == 0 && given != "" {
		f.auth = []string{given}
	}
	for _, credentials := range f.auth {
		if scheme, id, ok := strings.Cut(credentials, ":"); !ok || scheme == "" || id == "" {
			return nil, cli.Usage("--source-auth: want SCHEME:ID as in digest:NAME:PASSWORD")
		}
	}
	if (f.tls.Cert == "") != (f.tls.Key == "") {
		return nil, cli.Usage("--source-cert and --source-key: give both, or neither")
	}
	return migrate.DialZooKeeper(ctx, migrate.Ensemble{
		Servers: at.Servers, Chroot: at.Chroot, Credentials: f.auth, TLS: &f.tls, Timeout: importCallTimeout,
	})
}

// parseZooKeeper reads a connect string whose servers have ZooKeeper's port by default.
func parseZooKeeper(connect string) (client.ConnectString, error) {
	list, chroot, rooted := strings.Cut(connect, "/")
	servers := strings.Split(list, ",")
	for i, server := range servers {
		server = strings.TrimSpace(server)
		if !strings.Contains(server[strings.LastIndexByte(server, ']')+1:], ":") && server != "" {
			server += ":" + zookeeperPort
		}
		servers[i] = server
	}
	whole := strings.Join(servers, ",")
	if rooted {
		whole += "/" + chroot
	}
	return client.ParseConnectString(whole)
}

func runImportZooKeeper(ctx context.Context, env *cli.Env, f *importFlags, args []string) error {
	if err := cli.CheckPath(f.to); err != nil {
		return err
	}
	from, err := f.source(ctx, env, args[0])
	if err != nil {
		return err
	}
	defer from.Close()
	defer context.AfterFunc(ctx, from.Close)() // ends calls that wait for the source
	o := f.options
	o.Timeout = importCallTimeout
	o.MaxVersion, o.MaxCounter = int64(f.maxVersion), int64(f.maxCounters) //nolint:gosec // bounded
	began := time.Now()
	o.Progress = importProgress(env, began)
	copyTree := func(ctx context.Context, s *client.Session) error {
		to, err := s.Tree().Chroot(f.to)
		if err != nil {
			return err
		}
		summary, err := migrate.Run(ctx, from, to, o)
		env.Out.Progressf("")
		if err != nil {
			env.Out.Messagef("holdfast: interrupted after %s: run the same command again to continue\n", importedText(summary))
			return fmt.Errorf("import: %w", err)
		}
		v := importView{From: args[0], To: f.to, Summary: summary, Seconds: time.Since(began).Seconds()}
		if err := env.Out.Print(v, v.text); err != nil {
			return err
		}
		return v.failure()
	}
	return env.Cluster.Connect(func(cl *client.Client) error {
		return env.WithSession(ctx, cl, env.SessionFor("import", importTimeout), copyTree)
	})
}

// importProgress shows the progress on a terminal every second, or in a line every [importLine] elsewhere.
func importProgress(env *cli.Env, began time.Time) func(migrate.Summary) {
	shown := began
	return func(s migrate.Summary) {
		env.Out.Progressf("%s", importedText(s))
		if !cli.IsTerminal(env.Out.Stderr) && time.Since(shown) >= importLine {
			shown = time.Now()
			env.Out.Messagef("%s\n", importedText(s))
		}
	}
}

// importedText describes the progress of an import.
func importedText(s migrate.Summary) string {
	counts, verb := s.Copied, "copied"
	if s.Verified != nil {
		counts, verb = s.Verified, "compared"
	}
	if counts == nil {
		return "nothing"
	}
	return fmt.Sprintf("%d entries %s, %s, %d ephemerals skipped", counts.Entries, verb, dataText(counts),
		counts.Ephemerals)
}

func dataText(c *migrate.Counts) string { return words.Bytes(uint64(c.Bytes)) } //nolint:gosec // a sum of lengths

// importView is the result of an import in JSON.
type importView struct {
	From string `json:"from"`
	To   string `json:"to"`
	migrate.Summary
	Seconds float64 `json:"seconds"`
}

// text shows the result for people.
func (v importView) text() string {
	whole := func(n int64) string { return strconv.FormatInt(n, 10) }
	var rows [][]string
	if c := v.Copied; c != nil {
		rows = append(rows, []string{"entries", whole(c.Entries)}, []string{"data", dataText(c)},
			[]string{"created", whole(c.Created)}, []string{"overwritten", whole(c.Overwritten)},
			[]string{"versions raised", whole(c.Raised)}, []string{"equal already", whole(c.Equal)},
			[]string{"counters raised", whole(c.Counters)}, []string{"ephemerals skipped", whole(c.Ephemerals)},
			[]string{"vanished", whole(c.Vanished)}, []string{"deleted", whole(c.Deleted)},
			[]string{"conflicts", whole(c.Conflicts)}, []string{"refused", whole(c.Refused)})
	}
	if c := v.Verified; c != nil {
		rows = append(rows, []string{"compared", whole(c.Entries)}, []string{"different", whole(c.Different)},
			[]string{"extra at the target", whole(c.Extra)}, []string{"versions not kept", whole(c.Lost)},
			[]string{"versions ahead", whole(c.Ahead)})
	}
	rows = append(rows, []string{"equal", cli.YesNo(v.Equal)})
	for _, p := range v.Problems[:min(shownProblems, len(v.Problems))] {
		rows = append(rows, []string{"problem", p.String()})
	}
	return cli.Properties(rows)
}

// failure is the error of an import after which the trees are not equal.
func (v importView) failure() error {
	if v.Equal {
		return nil
	}
	c := v.Verified
	return fmt.Errorf("import: the trees are not equal: %d entries differ, %d are at the target alone, %d could not be "+
		"compared; stop the writers of the source, and run the command with --overwrite and --delete", c.Different, c.Extra,
		c.Refused)
}
