//go:build e2e

package zk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	zookeepers "github.com/go-zookeeper/zk"

	"holdfast/test/timeout"
)

// command is the command line's program, built once.
var command = sync.OnceValues(func() (string, error) {
	node, err := program()
	if err != nil {
		return "", err
	}
	file := filepath.Join(filepath.Dir(node), "holdfast")
	out, err := exec.Command("go", "build", "-o", file, "holdfast/cmd/holdfast").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the command line: %w: %s", err, out)
	}
	return file, nil
})

// counted is a part of the summary of an import.
type counted struct {
	Entries     int `json:"entries"`
	Created     int `json:"created"`
	Overwritten int `json:"overwritten"`
	Equal       int `json:"equal"`
	Counters    int `json:"counters_raised"`
	Ephemerals  int `json:"ephemerals_skipped"`
	Deleted     int `json:"deleted"`
	Extra       int `json:"extra"`
	Conflicts   int `json:"conflicts"`
	Refused     int `json:"refused"`
	Different   int `json:"different"`
	Lost        int `json:"versions_not_kept"`
}

// imported is the summary of an import.
type imported struct {
	Copied, Verified counted
	Equal            bool
	Seconds          float64
	Problems         []struct{ Path, Kind, Field, Why string }
}

// move is a ZooKeeper and a cluster beside it, with a client of each that is super there.
type move struct {
	t            *testing.T
	from, to     *zookeepers.Conn
	source       string
	targets      []string // ports of the cluster for ZooKeeper's clients
	command, dir string
	// endpoint is a client port of the cluster.
	endpoint string
}

func newMove(t *testing.T) *move {
	t.Helper()
	return newMoveWith(t, "")
}

// newMoveWith is newMove with more settings of the ZooKeeper.
func newMoveWith(t *testing.T, settings string) *move {
	t.Helper()
	file, err := command()
	timeout.Check(t, err)
	theirs, ours := zookeeperWith(t, settings), holdfast(t)
	host, port, _ := net.SplitHostPort(ours.addresses[0])
	number, _ := strconv.Atoi(port)
	m := &move{
		t: t, from: super(t, theirs.addresses), to: super(t, ours.addresses), source: theirs.addresses[0],
		targets: ours.addresses,
		command: file, dir: t.TempDir(), endpoint: net.JoinHostPort(host, strconv.Itoa(number-4)),
	}
	return m
}

// quiet keeps the library from printing.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// super returns a client whom no access list stops.
func super(t *testing.T, servers []string) *zookeepers.Conn {
	t.Helper()
	conn, events, err := zookeepers.Connect(servers, 30*time.Second, zookeepers.WithLogger(quiet{}),
		zookeepers.WithLogInfo(false))
	timeout.Check(t, err)
	go func() {
		for range events {
		}
	}()
	t.Cleanup(conn.Close)
	timeout.Check(t, conn.AddAuth("digest", []byte("super:test")))
	return conn
}

// start begins a command of the command line, with the names and passwords of super on both sides.
func (m *move) start(args ...string) (cmd *exec.Cmd, out, complaints *bytes.Buffer) {
	m.t.Helper()
	cmd = exec.CommandContext(m.t.Context(), m.command, args...)
	cmd.Env = append(os.Environ(), "HOLDFAST_ENDPOINTS="+m.endpoint, "HOLDFAST_SOURCE_AUTH=digest:super:test",
		"HOLDFAST_DIGEST=super:test")
	out, complaints = &bytes.Buffer{}, &bytes.Buffer{}
	cmd.Dir, cmd.Stdout, cmd.Stderr = m.dir, out, complaints
	timeout.Check(m.t, cmd.Start())
	return cmd, out, complaints
}

// run imports, and checks the exit code.
func (m *move) run(wantCode int, args ...string) imported {
	m.t.Helper()
	cmd, out, complaints := m.start(append(slices.Concat([]string{"import", "zookeeper"}, args), "-o", "json")...)
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != wantCode {
		m.t.Fatalf("import %v: exit code %d, want %d: %s%s", args, got, wantCode, out, complaints)
	}
	var i imported
	if err := json.Unmarshal(out.Bytes(), &i); err != nil {
		m.t.Fatalf("import %v: %v: %s%s", args, err, out, complaints)
	}
	return i
}

// ok fails the test for an error.
func (m *move) ok(err error) {
	m.t.Helper()
	timeout.Check(m.t, err)
}

// make makes an entry at the source.
func (m *move) make(path string, data []byte, flags int32, acl ...zookeepers.ACL) string {
	m.t.Helper()
	if len(acl) == 0 {
		acl = zookeepers.WorldACL(zookeepers.PermAll)
	}
	at, err := m.from.Create(path, data, flags, acl)
	m.ok(err)
	return at
}

// application makes the entries of an application below a path: 14 of them stay, and two are ephemeral.
func (m *move) application(root string) {
	m.t.Helper()
	m.make(root, []byte("an application"), 0)
	m.make(root+"/config", []byte("threads = 0"), 0)
	for i := range 7 {
		_, err := m.from.Set(root+"/config", fmt.Appendf(nil, "threads = %d", i+1), -1)
		m.ok(err)
	}
	m.make(root+"/null", nil, 0)
	m.make(root+"/empty", []byte{}, 0)
	m.make(root+"/secret", []byte("closed"), 0, zookeepers.DigestACL(zookeepers.PermAll, "app", "pw")...)
	m.make(root+"/secret/below", []byte("closed too"), 0, zookeepers.ACL{
		Perms: zookeepers.PermRead, Scheme: "ip", ID: "10.1.0.0/16",
	}, zookeepers.ACL{Perms: zookeepers.PermRead | zookeepers.PermAdmin, Scheme: "world", ID: "anyone"})
	for range 3 {
		_, err := m.from.SetACL(root+"/secret", zookeepers.DigestACL(zookeepers.PermAll, "app", "pw"), -1)
		m.ok(err)
	}
	m.make(root+"/queue", nil, 0)
	for i := range 20 {
		job := m.make(root+"/queue/job-", nil, zookeepers.FlagSequence)
		if i < 15 {
			m.ok(m.from.Delete(job, -1))
		}
	}
	m.make(root+"/lock", nil, 0)
	m.ok(m.from.Delete(m.make(root+"/lock/l-", nil, zookeepers.FlagSequence), -1))
	m.make(root+"/members", nil, 0)
	m.make(root+"/members/a", nil, zookeepers.FlagEphemeral)
	m.make(root+"/members/b-", nil, zookeepers.FlagEphemeral|zookeepers.FlagSequence)
}

// same fails unless an entry and all below it are the same on both sides, and returns how many persistent ones it has.
func (m *move) same(from, to string) (entries int) {
	m.t.Helper()
	_, err := m.to.Sync(to) // another client has written, perhaps at another node
	m.ok(err)
	data, stat, err := m.from.Get(from)
	m.ok(err)
	if stat.EphemeralOwner != 0 {
		if there, _, failed := m.to.Exists(to); there || failed != nil {
			m.t.Errorf("the ephemeral %s is at the target: %v, %v", from, there, failed)
		}
		return 0
	}
	acl, _, err := m.from.GetACL(from)
	m.ok(err)
	names, stat, err := m.from.Children(from)
	m.ok(err)
	gotData, _, err := m.to.Get(to)
	m.ok(err)
	gotACL, _, err := m.to.GetACL(to)
	m.ok(err)
	_, got, err := m.to.Children(to)
	m.ok(err)
	if !bytes.Equal(gotData, data) || (gotData == nil) != (data == nil) {
		m.t.Errorf("%s: data %q, want %q", to, gotData, data)
	}
	if !slices.Equal(gotACL, acl) {
		m.t.Errorf("%s: access list %v, want %v", to, gotACL, acl)
	}
	type numbers struct{ version, acl, made int32 }
	is := numbers{got.Version, got.Aversion, (got.Cversion + got.NumChildren) / 2}
	want := numbers{stat.Version, stat.Aversion, (stat.Cversion + stat.NumChildren) / 2}
	if is != want {
		m.t.Errorf("%s: versions of data and list, and children made: %v, want %v", to, is, want)
	}
	for _, name := range names {
		entries += m.same(strings.TrimSuffix(from, "/")+"/"+name, strings.TrimSuffix(to, "/")+"/"+name)
	}
	return entries + 1
}
