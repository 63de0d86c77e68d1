package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"holdfast/cmd/internal/about"
	"holdfast/cmd/internal/arg"
	"holdfast/console"
	"holdfast/node"
	"holdfast/node/config"
	"holdfast/node/health"
	"holdfast/session"
	"holdfast/zk"
)

const (
	// portStep is the distance between the ports of two nodes of a dev cluster.
	portStep = 10
	// maxDevNodes bounds a dev cluster to a size that one machine serves easily.
	maxDevNodes = 9
	// devStart bounds the wait for the first leader.
	devStart = 30 * time.Second
)

// dev is a cluster in one process: real nodes, real disks, real sockets on loopback.
type dev struct {
	dir      string
	nodes    int
	portBase int
	logLevel string
	// localSessions and readOnly switch the settings local_sessions and read_only on.
	localSessions, readOnly bool
	// super is the setting super_digest.
	super string
	// tls has certificates made, and every port require TLS.
	tls bool
	// temporary reports that dir is removed at the end.
	temporary bool
	// disk returns how much room the file system of a directory has.
	disk func(dir string) (health.Disk, error)
}

func devCommand(environ []string) *cobra.Command {
	d := dev{disk: health.DiskOf}
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a whole cluster in this process, on loopback",
		Long: "Run a whole cluster in this process, on loopback. Its nodes have the default settings, except for the " +
			"flags below,\nand disk_limit=100: with little free disk space it warns, and serves.\n" +
			"They read no file, and of the HOLDFAST_ variables " + superVariable + " alone, the NAME:HASH of the client " +
			"that no\naccess list of the tree holds back. All nodes end together. To see a cluster lose a node, run it " +
			"in\ncontainers (make up).",
		Args: arg.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := d.check(); err != nil {
				return err
			}
			d.super = valueOf(superVariable, environ)
			warnOfVariables(cmd.ErrOrStderr(), environ)
			if err := d.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()); err != nil {
				return failure{err}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&d.dir, "dir", "",
		"keep the nodes' data here (default: a temporary directory, removed at the end)")
	cmd.Flags().Var(arg.Whole(&d.nodes, 3, 1, maxDevNodes), "nodes",
		fmt.Sprintf("number of nodes, 1 to %d", maxDevNodes))
	cmd.Flags().Var(arg.Whole(&d.portBase, 7400, 1, 65535-portStep*maxDevNodes), "port-base",
		fmt.Sprintf("first port; each node takes five, %d apart", portStep))
	cmd.Flags().BoolVar(&d.localSessions, "local-sessions", false,
		"allow local sessions, which only one node knows (local_sessions=on)")
	cmd.Flags().BoolVar(&d.readOnly, "read-only", false,
		"let a node without a quorum serve reads to clients that allow it (read_only=on)")
	cmd.Flags().BoolVar(&d.tls, "tls", false,
		"make a CA and certificates at each start, and speak TLS alone on every port")
	cmd.Flags().StringVar(&d.logLevel, "log-level", "warn",
		"least severe log lines that are written: trace, debug, info, warn, error or off")
	return cmd
}

func (d dev) check() error {
	if hclog.LevelFromString(d.logLevel) == hclog.NoLevel {
		return &config.SettingError{
			Setting: "--log-level", Value: d.logLevel, Limit: "must be trace, debug, info, warn, error or off",
		}
	}
	return nil
}

// superVariable has the only setting of nodes that node dev reads from a variable: it is a secret.
const superVariable = "HOLDFAST_SUPER_DIGEST"

// valueOf returns the value of a variable, empty if unset.
func valueOf(variable string, environ []string) (value string) {
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, variable+"="); ok {
			value = v
		}
	}
	return value
}

// warnOfDisk prints that the disk of the nodes is nearly full: they serve until a write fails.
func warnOfDisk(to io.Writer, dir string, disk health.Disk) {
	if reserve := disk.Reserve(0); disk.Free < reserve {
		//nolint:errcheck // the output is where errors go
		fmt.Fprintf(to, "node: only %d MiB are free on the disk of %s: node run would count it as full, with less than %d "+
			"MiB; node dev serves until a write fails\n", disk.Free>>20, dir, reserve>>20)
	}
}

// warnOfVariables prints the variables that are set for a node and that node dev ignores: node run would read or refuse
// them.
func warnOfVariables(to io.Writer, environ []string) {
	names := slices.DeleteFunc(config.Variables(environ), func(name string) bool { return name == superVariable })
	if len(names) > 0 {
		//nolint:errcheck // the output is where errors go
		fmt.Fprintf(to, "node: node dev reads flags and %s, and ignores these variables: %s\n", superVariable,
			strings.Join(names, ", "))
	}
}

// run runs the cluster until ctx ends or a node fails.
func (d dev) run(ctx context.Context, stdout, stderr io.Writer) error {
	if d.dir != "" {
		if err := d.claim(); err != nil {
			return err
		}
		return d.serve(ctx, stdout, stderr)
	}
	temporary, err := os.MkdirTemp("", "holdfast-dev-")
	if err != nil {
		return err
	}
	d.dir, d.temporary = temporary, true
	return errors.Join(d.serve(ctx, stdout, stderr), os.RemoveAll(temporary))
}

func (d dev) serve(ctx context.Context, stdout, stderr io.Writer) error {
	group, running := errgroup.WithContext(context.WithoutCancel(ctx))
	running, cancel := context.WithCancel(running)
	defer cancel()
	if disk, err := d.disk(d.dir); err == nil { // otherwise a node reports the error
		warnOfDisk(stderr, d.dir, disk)
	}
	logger := newLogger(stderr, d.logLevel, "text")
	defer context.AfterFunc(ctx, func() {
		if !logger.IsInfo() { // before cancel: warnings about each other are useless while all nodes stop
			logger.SetLevel(hclog.Off)
		}
		cancel()
	})()
	nodes, err := d.start(running, group, logger)
	if err == nil {
		err = waitReady(running, nodes)
	}
	if err == nil && running.Err() == nil {
		err = d.welcome(stdout)
	}
	if err != nil {
		cancel()
	}
	return errors.Join(err, group.Wait())
}

// start runs the nodes in group until ctx ends.
func (d dev) start(ctx context.Context, group *errgroup.Group, logger hclog.Logger) ([]*node.Node, error) {
	configs := d.configs()
	if d.tls {
		if err := d.certificates().secure(configs); err != nil {
			return nil, err
		}
	}
	var nodes []*node.Node
	for _, cfg := range configs {
		options := node.Options{
			Logger: logger.Named(fmt.Sprintf("n%d", cfg.Node)), Version: about.Version(), Console: console.ForNode,
		}
		n, err := node.New(cfg, options) //nolint:contextcheck // Run ends what New starts
		if err != nil {
			return nil, fmt.Errorf("node %d: %w (node dev: with --port-base or --dir)", cfg.Node, err)
		}
		group.Go(func() error { return n.Run(ctx) })
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// waitReady returns when every node is ready. It also returns nil when ctx ends: the caller reports the cause.
func waitReady(ctx context.Context, nodes []*node.Node) error {
	bound := time.NewTimer(devStart)
	defer bound.Stop()
	for _, n := range nodes {
		select {
		case <-n.Ready():
		case <-ctx.Done():
			return nil
		case <-bound.C:
			return fmt.Errorf("no leader was elected within %s: --log-level=debug shows why", devStart)
		}
	}
	return nil
}

// configs returns the configurations of the nodes: the defaults, with different ports.
func (d dev) configs() []config.Config {
	var peers []config.Peer
	for i := range d.nodes {
		peers = append(peers, config.Peer{
			Node:   session.Node(i + 1),
			Client: d.address(i, 0),
			Raft:   d.address(i, 1),
			Peer:   d.address(i, 2),
		})
	}
	var configs []config.Config
	for i, p := range peers {
		c := config.Default()
		c.Node, c.Peers = p.Node, peers
		c.DataDir = filepath.Join(d.dir, fmt.Sprintf("n%d", p.Node))
		c.Listen.Client, c.Listen.Raft, c.Listen.Peer, c.Listen.HTTP = p.Client, p.Raft, p.Peer, d.address(i, 3)
		c.Listen.ZooKeeper = d.address(i, 4)
		c.ZooKeeper.FourLetterCommands = strings.Join(zk.Words(), ",")
		c.Sessions.Local, c.ReadOnly, c.Tree.Super = d.localSessions, d.readOnly, d.super
		c.Resources.DiskLimit = 100 // the nodes share one disk: none would have room
		configs = append(configs, c)
	}
	return configs
}

func (d dev) certificates() devCertificates {
	return devCertificates{filepath.Join(d.dir, "certificates")}
}

func (d dev) address(i, port int) string {
	return fmt.Sprintf("127.0.0.1:%d", d.portBase+portStep*i+port)
}

// claim checks that the directory was made for the same nodes on the same ports, which are in Raft's log. It marks a
// new directory.
func (d dev) claim() error {
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(d.dir, "dev-cluster")
	mine := fmt.Sprintf("--nodes %d --port-base %d\n", d.nodes, d.portBase)
	switch found, err := os.ReadFile(path); {
	case errors.Is(err, os.ErrNotExist):
		return os.WriteFile(path, []byte(mine), 0o600)
	case err != nil:
		return err
	case string(found) != mine:
		return fmt.Errorf("%s was made with %s: use the same flags, or another --dir", d.dir,
			strings.TrimSpace(string(found)))
	default:
		return nil
	}
}

// welcome prints the addresses of the nodes, and commands to try.
func (d dev) welcome(to io.Writer) error {
	var b strings.Builder
	serve := fmt.Sprintf("%d nodes serve. Their", d.nodes)
	if d.nodes == 1 {
		serve = "1 node serves. Its"
	}
	fmt.Fprintf(&b, "%s data is in %s", serve, d.dir)
	if d.temporary {
		b.WriteString(", and is removed at the end: --dir keeps it.\n\n")
	} else {
		b.WriteString(", which is kept.\n\n")
	}
	b.WriteString("  NODE   CLIENTS           HTTP\n")
	scheme := "http"
	if d.tls {
		scheme = "https"
	}
	var endpoints []string
	for i := range d.nodes {
		endpoints = append(endpoints, d.address(i, 0))
		fmt.Fprintf(&b, "  %-6d %-17s %s://%s/ui/\n", i+1, d.address(i, 0), scheme, d.address(i, 3))
	}
	fmt.Fprintf(&b, "\nIn another terminal:\n\n  export HOLDFAST_ENDPOINTS=%s\n", strings.Join(endpoints, ","))
	if d.tls {
		fmt.Fprintf(&b, "  export HOLDFAST_CACERT=%s\n", d.certificates().ca())
	}
	cli := commandLine()
	for _, try := range []string{
		"cluster status", "session keep-alive --timeout 10s", "session ls", "create /web 10.0.0.7:80 --ephemeral --keep-alive", "tree /",
	} {
		fmt.Fprintf(&b, "  %s %s\n", cli, try)
	}
	b.WriteString("\nCtrl-C ends the cluster.\n")
	_, err := io.WriteString(to, b.String())
	return err
}

// commandLine returns the command that starts the command line client: the binary next to this program, or go run.
func commandLine() string {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), "holdfast")
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return beside
		}
	}
	return "go run ./cmd/holdfast"
}
