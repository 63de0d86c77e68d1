//go:build e2e

package zk

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"holdfast/client"
	"holdfast/session"
	"holdfast/test/timeout"
)

const (
	// clientsJava and clientsPython are the programs with the clients of Java, of C and of kazoo.
	clientsJava, clientsPython = "Clients.java", "clients.py"
	clientsTimeout             = 30 * time.Second
	crowdClients               = 1000
)

// clientNames are what the programs' entries are named by.
var clientNames = []string{"java", "c", "kazoo"}

// needClients skips the test unless all of these clients are there.
func needClients(t *testing.T) {
	t.Helper()
	need(t, jar, "libzookeeper-java")
	need(t, compiler, "default-jdk-headless")
	need(t, cLibrary, "libzookeeper-mt2")
	need(t, python, "python3")
	need(t, "/usr/lib/python3/dist-packages/kazoo", "python3-kazoo")
}

// startClient starts a client's program at a part of it.
func startClient(t *testing.T, name, part string, addresses []string) *partner {
	t.Helper()
	servers := strings.Join(addresses, ",")
	if name == "java" {
		return converse(t, name, "java", "-Xmx512m", "-cp", jar, clientsJava, part, servers)
	}
	return converse(t, name, python, clientsPython, name, part, servers)
}

// startClients starts the programs of all clients.
func startClients(t *testing.T, part string, addresses []string) (all []*partner) {
	t.Helper()
	for _, name := range clientNames {
		all = append(all, startClient(t, name, part, addresses))
	}
	return all
}

// partner is a program that a test talks to line by line.
type partner struct {
	name            string
	cmd             *exec.Cmd
	in              io.Writer
	lines           *bufio.Scanner
	all, complaints strings.Builder
}

// converse starts a program, which is killed when it takes too long.
func converse(t *testing.T, name, program string, args ...string) *partner {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), curatorWait)
	t.Cleanup(cancel)
	p := &partner{name: name, cmd: exec.CommandContext(ctx, program, args...)}
	in, err := p.cmd.StdinPipe()
	timeout.Check(t, err)
	out, err := p.cmd.StdoutPipe()
	timeout.Check(t, err)
	p.in, p.lines, p.cmd.Stderr = in, bufio.NewScanner(out), &p.complaints
	timeout.Check(t, p.cmd.Start())
	t.Cleanup(func() { _, _ = p.cmd.Process.Kill(), p.cmd.Wait() })
	return p
}

// next returns the next line that the program begins with "= ", without that.
func (p *partner) next() (line string, ok bool) {
	for p.lines.Scan() {
		p.all.WriteString(p.lines.Text() + "\n")
		if line, ok := strings.CutPrefix(p.lines.Text(), "= "); ok {
			return line, true
		}
	}
	return "", false
}

// says waits for a line that begins with a word, and returns the rest of it.
func (p *partner) says(t *testing.T, word string) (rest string) {
	t.Helper()
	line, ok := p.next()
	rest, is := strings.CutPrefix(line, word)
	if !ok {
		p.ends(t)
	}
	if !is || !ok {
		t.Fatalf("%s said %q, want %q", p.name, line, word)
	}
	return rest
}

// tell gives the program a line.
func (p *partner) tell(word string) { _, _ = io.WriteString(p.in, word+"\n") } // an ended one says nothing more

// ends waits for the program's end, which must be one without complaints.
func (p *partner) ends(t *testing.T) {
	t.Helper()
	if err := p.cmd.Wait(); err != nil {
		t.Fatalf("%s: %v: %s%s", p.cmd.Args, err, last(p.all.String(), 4000), last(p.complaints.String(), 4000))
	}
}

// TestReadOnlyClients stops two of three nodes. At the third, which is read-only then, clients of Java, C and kazoo get
// sessions of that node: they read, and their writes are refused. A session of the cluster has no connection there
// meanwhile (Z9 read-only), and goes on afterwards. The others get sessions of the cluster once it is back.
func TestReadOnlyClients(t *testing.T) {
	needClients(t)
	nodes := nodesOf(t, "--read-only", "on", "--local-sessions", "on")
	addresses := begin(t, nodes)
	z, _ := goClient(t, addresses[2:], clientsTimeout)
	for _, path := range []string{"/kept", "/of-java", "/of-c", "/of-kazoo"} {
		if _, err := z.Create(path, []byte("before"), 0, open); err != nil {
			t.Fatal(err)
		}
	}
	clients := startClients(t, "readonly", addresses)
	for _, p := range clients {
		p.says(t, "begun")
	}
	for _, n := range nodes[:2] {
		n.process.Stop()
	}
	for _, p := range clients {
		p.tell("alone")
	}
	for _, p := range clients {
		p.says(t, "read-only")
	}
	for _, n := range nodes[:2] {
		n.begin(t)
	}
	for _, p := range clients {
		p.tell("back")
	}
	for _, p := range clients {
		var former, late int64
		if _, err := fmt.Sscan(p.says(t, "read-write"), &former, &late); err != nil {
			t.Fatal(err)
		}
		owned(t, z, "/former-"+p.name, former)
		owned(t, z, "/late-"+p.name, late)
		data, err := again(t, func() ([]byte, error) {
			data, _, err := z.Get("/of-" + p.name)
			return data, err
		})
		if string(data) != "after" || err != nil {
			t.Errorf("%s has written %q: %v", p.name, data, err)
		}
		p.tell("end")
		p.ends(t)
	}
	if data, _, err := z.Get("/kept"); string(data) != "before" || err != nil {
		t.Errorf("a write that was refused left %q: %v", data, err)
	}
}

// owned checks whose ephemeral there is.
func owned(t *testing.T, z *gozk.Conn, path string, owner int64) {
	t.Helper()
	stat, err := again(t, func() (*gozk.Stat, error) {
		if _, err := z.Sync(path); err != nil {
			return nil, err
		}
		_, stat, err := z.Exists(path)
		return stat, err
	})
	if err != nil || stat.EphemeralOwner != owner {
		t.Errorf("%s is of %+v, want %d: %v", path, stat, owner, err)
	}
}

// TestExpirySeenByClients stops the processes of clients of Java, C and kazoo until the cluster has ended a session of
// each, and restarts the node that they are connected to. Each client is told of the expiry, and not of a connection
// before. In the same process another client, whose session has a longer timeout, resumes it at that node.
func TestExpirySeenByClients(t *testing.T) {
	needClients(t)
	nodes := nodesOf(t, "--max-timeout", "10m")
	addresses := begin(t, nodes)
	z, _ := goClient(t, addresses[:1], clientsTimeout)
	clients := startClients(t, "expiry", addresses[2:])
	gone := map[string]<-chan gozk.Event{}
	for _, p := range clients {
		p.says(t, "begun")
		if _, err := z.Sync("/"); err != nil {
			t.Fatal(err)
		}
		there, _, ended, err := z.ExistsW("/brief-" + p.name)
		if !there || err != nil {
			t.Fatalf("the session of %s has ended before it was stopped: %v", p.name, err)
		}
		gone[p.name] = ended
	}
	for _, p := range clients {
		timeout.Check(t, p.cmd.Process.Signal(syscall.SIGSTOP))
	}
	for _, p := range clients {
		select {
		case e := <-gone[p.name]:
			if e.Type != gozk.EventNodeDeleted {
				t.Fatalf("%s: %+v", p.name, e)
			}
		case <-time.After(startWait):
			timeout.Fatalf(t, "the session of %s has not ended", p.name)
		}
	}
	nodes[2].process.Stop()
	nodes[2].begin(t)
	nodes[2].serves(t)
	for _, p := range clients {
		timeout.Check(t, p.cmd.Process.Signal(syscall.SIGCONT))
		p.tell("awake")
	}
	for _, p := range clients {
		t.Logf("%s was told:%s", p.name, p.says(t, "expired"))
		p.tell("end")
		p.ends(t)
	}
}

// TestCrowds has a thousand clients in one process, of Java, then of C, then of kazoo. All have sessions at once, an
// ephemeral each, and a watch that hears of one write. No session is left.
func TestCrowds(t *testing.T) {
	needClients(t)
	nodes := nodesOf(t, "--max-timeout", "10m")
	addresses := begin(t, nodes)
	z, _ := goClient(t, addresses, clientsTimeout)
	sdk, err := client.New(client.Config{Endpoints: []string{nodes[0].clients, nodes[1].clients, nodes[2].clients}})
	timeout.Check(t, err)
	t.Cleanup(func() { _ = sdk.Close() })
	for _, name := range clientNames {
		root := "/crowd-" + name
		if _, err := z.Create(root, nil, 0, open); err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			p := startClient(t, name, "crowd", addresses)
			var count int
			if _, err := fmt.Sscan(p.says(t, "all"), &count); err != nil || count != crowdClients {
				t.Fatalf("%d clients: %v", count, err)
			}
			owners := ownersOf(t, z, root)
			if len(owners) != count {
				t.Errorf("%d clients have ephemerals, want %d", len(owners), count)
			}
			alive := sessionsOf(t, sdk)
			for owner := range owners {
				if !alive[owner] {
					t.Errorf("there is no session %d", owner)
				}
			}
			if _, err := z.Set(root, []byte("rung"), -1); err != nil {
				t.Fatal(err)
			}
			p.tell("rung")
			p.says(t, "heard")
			p.tell("close")
			p.says(t, "closed")
			p.ends(t)
			if left := ownersOf(t, z, root); len(left) != 0 {
				t.Errorf("%d ephemerals are left", len(left))
			}
			if left := sessionsOf(t, sdk); len(left) != 1 || !left[z.SessionID()] {
				t.Errorf("%d sessions are left, want that of the test", len(left))
			}
		})
	}
}

// ownersOf returns the sessions that the children of an entry are ephemerals of.
func ownersOf(t *testing.T, z *gozk.Conn, root string) map[int64]bool {
	t.Helper()
	if _, err := z.Sync(root); err != nil {
		t.Fatal(err)
	}
	names, _, err := z.Children(root)
	timeout.Check(t, err)
	owners := map[int64]bool{}
	for _, name := range names {
		_, stat, err := z.Exists(root + "/" + name)
		timeout.Check(t, err)
		owners[stat.EphemeralOwner] = true
	}
	return owners
}

// sessionsOf returns the ids of all sessions of the cluster.
func sessionsOf(t *testing.T, sdk *client.Client) map[int64]bool {
	t.Helper()
	all := map[int64]bool{}
	for o := (client.ListOptions{Scope: session.ScopeGlobal}); ; {
		page, err := sdk.List(t.Context(), o)
		timeout.Check(t, err)
		for _, one := range page.Sessions {
			all[int64(one.Session.ID)] = true //nolint:gosec // the bits of an id
		}
		if o.PageToken = page.Next; o.PageToken == "" {
			return all
		}
	}
}
