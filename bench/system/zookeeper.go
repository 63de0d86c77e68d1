package system

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"holdfast/test/loopback"
	"holdfast/test/proc"
)

// zooPorts of a server: clients, followers to their leader, elections.
const zooPorts = 3

// ZooKeeper is what Debian's package zookeeper has, with the settings of its sample configuration: ticks of 2 s, and a
// heap of 1,000 MB. Two settings differ: one address may have any number of connections, and there is no HTTP port.
type ZooKeeper struct {
	// Jar is the path of zookeeper.jar, whose manifest finds the others.
	Jar string
}

// Name is that of the column.
func (ZooKeeper) Name() string { return "ZooKeeper" }

// Start starts the servers.
func (z ZooKeeper) Start(ctx context.Context, dir string, size int) (Cluster, error) {
	at, err := loopback.Own(size * zooPorts)
	if err != nil {
		return nil, err
	}
	c := &ensemble{}
	for i := range size {
		c.addresses = append(c.addresses, at[i*zooPorts])
	}
	if c.servers, err = start(dir, size, func(i int, own string) (proc.Spec, error) {
		return proc.Spec{Name: "zookeeper", Dir: own, Args: []string{
			"java", "-Xmx1000m", "-cp", z.Jar, "org.apache.zookeeper.server.quorum.QuorumPeerMain",
			filepath.Join(own, "zoo.cfg"),
		}}, configure(own, i, at)
	}); err != nil {
		return nil, err
	}
	c.healthy = c.serves
	return c, c.serve(ctx)
}

// configure writes the configuration of a server and its number.
func configure(dir string, i int, at []string) error {
	data := filepath.Join(dir, "data")
	host, port, err := net.SplitHostPort(at[i*zooPorts])
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir=%s\nclientPort=%s\nclientPortAddress=%s\n"+
		"maxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=srvr\n", data, port, host)
	for j := range len(at) / zooPorts {
		_, election, err := net.SplitHostPort(at[j*zooPorts+2])
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "server.%d=%s:%s\n", j+1, at[j*zooPorts+1], election)
	}
	return errors.Join(
		os.MkdirAll(data, 0o700),
		os.WriteFile(filepath.Join(data, "myid"), []byte(strconv.Itoa(i+1)), 0o600),
		os.WriteFile(filepath.Join(dir, "zoo.cfg"), []byte(b.String()), 0o600),
	)
}

// ensemble is a cluster of ZooKeeper.
type ensemble struct {
	servers
	addresses []string
}

// mode asks a server what it is: leader or follower.
func (e *ensemble) mode(ctx context.Context, i int) (string, error) {
	answer, err := e.report(ctx, i)
	if err != nil {
		return "", err
	}
	if _, mode, ok := strings.Cut(answer, "Mode: "); ok {
		mode, _, _ = strings.Cut(mode, "\n")
		return mode, nil
	}
	return "", fmt.Errorf("server %d: %s", i+1, strings.TrimSpace(answer))
}

// report asks a server for its report.
func (e *ensemble) report(ctx context.Context, i int) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", e.addresses[i])
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err = conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return "", err
	}
	if _, err = io.WriteString(conn, "srvr"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(io.LimitReader(conn, pageBytes))
	return string(answer), err
}

func (e *ensemble) serves(ctx context.Context) error {
	for i := range e.addresses {
		if _, err := e.mode(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// Leader asks the servers.
func (e *ensemble) Leader(ctx context.Context) (int, error) {
	for i := range e.addresses {
		if mode, err := e.mode(ctx, i); err == nil && mode == "leader" {
			return i, nil
		}
	}
	return 0, errors.New("no server leads")
}

// Most is bounded by what this process may have open.
func (e *ensemble) Most() int { return zooMost(len(e.all)) }

// Connect makes a client whose sessions are at one server. Each session is a connection.
func (e *ensemble) Connect(ctx context.Context, server int) (Conn, error) {
	return newZooConn(ctx, e.addresses[server]), nil
}

// Live asks each JVM for a histogram of live objects, which a collection precedes.
func (e *ensemble) Live(ctx context.Context) (int64, error) {
	if _, err := exec.LookPath("jcmd"); err != nil {
		return 0, fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	ctx, cancel := context.WithTimeout(ctx, liveWait)
	defer cancel()
	var sum int64
	for _, p := range e.all {
		out, err := exec.CommandContext(ctx, "jcmd", strconv.Itoa(p.PID()), "GC.class_histogram").Output()
		if err != nil {
			return 0, err
		}
		live, err := histogramTotal(string(out))
		if err != nil {
			return 0, err
		}
		sum += live
	}
	return sum, nil
}

// histogramTotal reads the last line: Total, instances, bytes.
func histogramTotal(out string) (int64, error) {
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "Total" {
			return strconv.ParseInt(fields[2], 10, 64)
		}
	}
	return 0, errors.New("jcmd GC.class_histogram: no line Total")
}
