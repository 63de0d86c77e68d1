//go:build e2e

package zk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	zookeepers "github.com/go-zookeeper/zk"

	"holdfast/test/proc"
	"holdfast/test/timeout"
)

// TestImport copies trees of a ZooKeeper with all that they have, and compares them through the library's client.
func TestImport(t *testing.T) {
	m := newMove(t)
	m.application("/app")
	const entries = 14 // with the five jobs that are left
	first := m.run(0, m.source)
	if c := first.Copied; !first.Equal || c.Created != entries || c.Ephemerals != 2 || c.Refused+c.Conflicts != 0 {
		t.Fatalf("got %+v", first)
	}
	if got := m.same("/app", "/app"); got != entries {
		t.Fatalf("%d entries are the same, want %d", got, entries)
	}
	job, err := m.to.Create("/app/queue/job-", nil, zookeepers.FlagSequence, zookeepers.WorldACL(zookeepers.PermAll))
	if err != nil || job != "/app/queue/job-0000000020" {
		t.Errorf("the next sequential name is %s, %v", job, err)
	}

	extra := m.run(1, m.source, "--verify-only")
	if v := extra.Verified; v.Extra != 1 || v.Different != 0 || extra.Problems[0].Path != job {
		t.Errorf("an entry at the target alone: %+v", extra)
	}
	_, err = m.to.Set("/app/config", []byte("mine"), -1)
	m.ok(err)
	conflict := m.run(1, m.source)
	if c := conflict.Copied; c.Conflicts != 1 || c.Overwritten != 0 || conflict.Problems[0].Field != "data" {
		t.Errorf("an entry that differs: %+v", conflict)
	}
	if data, _, _ := m.to.Get("/app/config"); string(data) != "mine" {
		t.Errorf("the conflict was overwritten: %q", data)
	}
	last := m.run(0, m.source, "--overwrite", "--delete")
	if c := last.Copied; !last.Equal || c.Overwritten != 1 || c.Deleted != 1 || c.Created != 0 {
		t.Errorf("after overwriting: %+v", last)
	}

	chroot := m.run(0, m.source+"/app", "--to", "/moved/here")
	if !chroot.Equal || chroot.Copied.Created != entries {
		t.Errorf("with chroots: %+v", chroot)
	}
	m.same("/app", "/moved/here")
}

// TestImportRefuses copies what a cluster cannot have, or what cannot be kept.
func TestImportRefuses(t *testing.T) {
	m := newMove(t)
	m.make("/app", nil, 0)
	m.make("/app/large", bytes.Repeat([]byte("a"), 1<<20-600), 0)
	m.make("/app/fine", bytes.Repeat([]byte("a"), 1<<20-4096), 0)
	_, err := m.from.Set("/app/fine", bytes.Repeat([]byte("b"), 1<<20-4096), -1)
	m.ok(err)
	m.make("/app/changed", nil, 0)
	for range 5 {
		_, err := m.from.Set("/app/changed", nil, -1)
		m.ok(err)
	}
	m.make("/app/counter", nil, 0)
	for range 8 {
		m.ok(m.from.Delete(m.make("/app/counter/c-", nil, zookeepers.FlagSequence), -1))
	}
	got := m.run(1, m.source, "--max-version", "4", "--max-counter", "7")
	refused := map[string]string{}
	for _, p := range got.Problems {
		if p.Kind == "refused" {
			refused[p.Path] = p.Field + ": " + p.Why
		}
	}
	if c := got.Copied; c.Refused != 2 || c.Lost != 1 ||
		!strings.Contains(refused["/app/large"], "data: has 1047976 bytes") ||
		!strings.Contains(refused["/app/large"], "at most 1048575") ||
		!strings.Contains(refused["/app/counter"], "counter: must be raised by 8") {
		t.Fatalf("got %+v", got)
	}
	if there, _, _ := m.to.Exists("/app/large"); there {
		t.Error("the large entry is there")
	}
	m.ok(m.from.Delete("/app/large", -1))
	if got = m.run(0, m.source); !got.Equal {
		t.Errorf("without the large one, and within the limits: %+v", got)
	}
	m.same("/app", "/app")

	cmd, _, complaints := m.start("import", "zookeeper", m.source+"/nothing")
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(complaints.String(), "no such entry") {
		t.Errorf("a chroot that is not there: %d, %s", code, complaints)
	}
}

// fill makes entries of 100 bytes below /many.
func (m *move) fill(entries int) {
	m.t.Helper()
	m.make("/many", nil, 0)
	var wait sync.WaitGroup
	for w := range 10 {
		wait.Go(func() {
			for i := w; i < entries; i += 10 {
				_, err := m.from.Create(fmt.Sprintf("/many/%05d", i), bytes.Repeat([]byte{'a'}, 100), 0,
					zookeepers.WorldACL(zookeepers.PermAll))
				if err != nil {
					m.t.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
}

// TestImportCutOff kills an import half way, and has another one go on.
func TestImportCutOff(t *testing.T) {
	m := newMove(t)
	const entries = 4000
	m.fill(entries)
	cmd, _, _ := m.start("import", "zookeeper", m.source)
	ctx, cancel := context.WithTimeout(t.Context(), startWait)
	defer cancel()
	m.ok(proc.Until(ctx, time.Millisecond, func(context.Context) error {
		if _, stat, err := m.to.Exists("/many"); err != nil || stat.NumChildren < entries/20 {
			return errors.New("it has not come far")
		}
		return nil
	}))
	m.ok(cmd.Process.Kill())
	_ = cmd.Wait()
	_, stat, err := m.to.Exists("/many")
	m.ok(err)
	if stat.NumChildren >= entries {
		t.Fatal("the import was not cut off: it was done")
	}
	got := m.run(0, m.source)
	if c := got.Copied; !got.Equal || c.Created == 0 || c.Equal < int(stat.NumChildren) || c.Created+c.Equal < entries {
		t.Errorf("cut off after %d: %+v", stat.NumChildren, got)
	}
	m.same("/many", "/many")
	again := m.run(0, m.source)
	if again.Copied.Equal < entries {
		t.Errorf("once more: %+v", again)
	}
	t.Logf("%d copied after %d in %.1f s; all looked at again in %.1f s", got.Copied.Created, stat.NumChildren,
		got.Seconds, again.Seconds)
}

// TestImportWhileWritten copies what writers change meanwhile, and copies it again after they have stopped.
func TestImportWhileWritten(t *testing.T) {
	m := newMove(t)
	const entries = 2000
	m.fill(entries)
	stop := make(chan struct{})
	var changes int
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			path := fmt.Sprintf("/many/%05d", i*7%entries)
			_, err := m.from.Set(path, fmt.Appendf(nil, "change %d", i), -1)
			if err != nil && !errors.Is(err, zookeepers.ErrNoNode) {
				t.Error(err)
				return
			}
			if i%10 == 0 {
				_ = m.from.Delete(path, -1)
				if _, err := m.from.Create("/many/new-", nil, zookeepers.FlagSequence,
					zookeepers.WorldACL(zookeepers.PermAll)); err != nil {
					t.Error(err)
					return
				}
			}
			changes++
		}
	})
	cmd, _, complaints := m.start("import", "zookeeper", m.source)
	_ = cmd.Wait()
	close(stop)
	writer.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 1 || changes < 50 ||
		!strings.Contains(complaints.String(), "the trees are not equal") {
		t.Fatalf("while %d changes were made: exit code %d: %s", changes, code, complaints)
	}
	got := m.run(0, m.source, "--overwrite", "--delete")
	if !got.Equal || got.Copied.Overwritten == 0 || got.Copied.Created == 0 {
		t.Errorf("after the writers have stopped: %+v", got)
	}
}

// python is Debian's: another one does not see its packages.
const python = "/usr/bin/python3"

// kazoo is an application that counts in a queue: the next number must be above all before it.
const kazoo = `
import sys
from kazoo.client import KazooClient
from kazoo.recipe.lock import Lock
c = KazooClient(hosts=sys.argv[1]); c.start(timeout=30)
with Lock(c, "/app/lock"):
    print(c.create("/app/queue/job-", b"", sequence=True, makepath=True))
c.stop()
`

// TestMoveAnApplication moves an application of kazoo with the commands of docs/zookeeper.md.
func TestMoveAnApplication(t *testing.T) {
	need(t, python, "python3-kazoo")
	need(t, "/usr/lib/python3/dist-packages/kazoo", "python3-kazoo")
	m := newMove(t)
	work := func(hosts, want string) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), python, "-c", kazoo, hosts).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Fatalf("at %s: %q, %v, want %s", hosts, got, err, want)
		}
	}
	work(m.source, "/app/queue/job-0000000000")
	commands := movingCommands(t)
	if len(commands) != 4 {
		t.Fatalf("docs/zookeeper.md has %d commands to move an application: %q", len(commands), commands)
	}
	for i, line := range commands {
		if i == 1 {
			work(m.source, "/app/queue/job-0000000001") // between the first copy and the last
		}
		args := strings.Fields(strings.ReplaceAll(line, "zk1:2181,zk2:2181,zk3:2181", m.source))[1:]
		cmd, out, complaints := m.start(args...)
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%s: %v: %s%s", line, err, out, complaints)
		}
	}
	host, port, _ := net.SplitHostPort(m.endpoint)
	number, _ := strconv.Atoi(port)
	work(net.JoinHostPort(host, strconv.Itoa(number+4)), "/app/queue/job-0000000002")
}

// movingCommands returns the commands of the section of docs/zookeeper.md that moves an application.
func movingCommands(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/zookeeper.md")
	timeout.Check(t, err)
	_, section, _ := strings.Cut(string(text), "\n## Moving an application\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1) {
		for line := range strings.Lines(block[1]) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), "  #")
			if line != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "export ") {
				all = append(all, line)
			}
		}
	}
	return all
}
