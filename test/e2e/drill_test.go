//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/session"
	"holdfast/test/page"
	"holdfast/test/timeout"
	"holdfast/tree"
)

// drillTimeout bounds one block of commands, images that are built included.
const drillTimeout = 8 * time.Minute

// drill runs blocks of the page, as a person does who types them in a directory of their own.
type drill struct {
	t    *testing.T
	c    *cluster
	dir  string
	page *page.Page
	env  []string
}

// newDrill returns a drill with the programs of this tree. The command make is that of the repository, wherever the
// person is.
func newDrill(t *testing.T, c *cluster) *drill {
	t.Helper()
	d := &drill{t: t, c: c, dir: t.TempDir(), page: page.Open(t)}
	root, err := filepath.Abs("../..")
	timeout.Check(t, err)
	tools := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nexec %s -C %s \"$@\"\n", must(t, "sh", "-c", "command -v make"), root)
	timeout.Check(t, os.WriteFile(filepath.Join(tools, "make"), []byte(script), 0o700))
	d.env = []string{
		"PATH=" + tools + ":" + filepath.Join(root, "bin") + ":" + os.Getenv("PATH"),
		"HOLDFAST_ENDPOINTS=" + strings.Join(c.endpoints(c.all()...), ","),
	}
	return d
}

// types runs a block of the page to its end. Every command of it must succeed.
func (d *drill) types(name, stdin string) string {
	d.t.Helper()
	return d.runs(d.page.Block(name), stdin)
}

// says is types for a command of the text. Words of it are replaced by others, and more is typed behind it.
func (d *drill) says(command, more string, replacing ...string) string {
	d.t.Helper()
	return d.runs(d.page.Inline(command, replacing...)+" "+more, "")
}

// runs runs commands, each of which must succeed.
func (d *drill) runs(commands, stdin string) string {
	d.t.Helper()
	out, err := d.tries(commands, stdin)
	if err != nil {
		d.t.Fatalf("%v\n%s\n%s", err, commands, out)
	}
	return out
}

func (d *drill) tries(commands, stdin string) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.t.Context()), drillTimeout) // the end is a clean-up
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", commands)
	cmd.Dir, cmd.Env, cmd.WaitDelay = d.dir, append(os.Environ(), d.env...), time.Second
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// former is what a client of the former cluster holds and knows: its entries have a name before theirs.
type former struct {
	t       *testing.T
	name    string
	client  *client.Client
	session *client.Session
	created tree.Stat
}

// hold opens a session with an entry and an ephemeral.
func hold(t *testing.T, c *cluster, name string) *former {
	t.Helper()
	f := &former{t: t, name: "/" + name}
	var err error
	if f.client, err = client.New(c.config(c.all()...)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.client.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), healWithin)
	defer cancel()
	if f.session, err = f.client.Open(ctx, client.SessionOptions{Timeout: minTimeout}); err != nil {
		t.Fatal(err)
	}
	of := f.session.Tree()
	for _, one := range []struct {
		path string
		kind tree.Kind
	}{{f.name + "-kept", tree.Persistent}, {f.name + "-held", tree.Ephemeral}} {
		if _, err = of.Create(ctx, one.path, []byte("data"), client.CreateOptions{Kind: one.kind}); err != nil {
			t.Fatal(err)
		}
	}
	e, err := of.Get(ctx, f.name+"-kept")
	timeout.Check(t, err)
	f.created = e.Stat
	return f
}

// restored checks a new cluster with the state in which a former one held something: the entry is there, the session is
// refused, and its ephemeral goes. New stamps and ids are above all former ones.
func (f *former) restored(c *cluster) {
	f.t.Helper()
	n, err := client.New(c.config(c.all()...))
	timeout.Check(f.t, err)
	defer n.Close()
	ctx, cancel := context.WithTimeout(f.t.Context(), 2*healWithin)
	defer cancel()
	e, err := n.Tree().Get(ctx, f.name+"-kept")
	if err != nil || string(e.Data) != "data" || e.Stat.Created != f.created.Created {
		f.t.Errorf("the entry is %+v, %v", e, err)
	}
	c.await(2*healWithin, "the ephemeral of a former session is gone", func() (bool, string) {
		_, there := n.Tree().Get(ctx, f.name+"-held")
		return errors.Is(there, &tree.RefusedError{Code: tree.NoNode}), fmt.Sprint(there)
	})
	s, err := n.Open(ctx, client.SessionOptions{Timeout: minTimeout})
	timeout.Check(f.t, err)
	if s.ID().MS() <= f.session.ID().MS() {
		f.t.Errorf("session %v in the new cluster, %v in the former one", s.ID(), f.session.ID())
	}
	if _, err = s.Tree().Create(ctx, f.name+"-new", nil, client.CreateOptions{}); err != nil {
		f.t.Fatal(err)
	}
	if e, err = n.Tree().Get(ctx, f.name+"-new"); err != nil || e.Stat.Created.Index() < f.created.Created.Index()+1<<37 {
		f.t.Errorf("a new entry is %+v, %v; a former one was made at %v", e, err, f.created.Created)
	}
	if err := s.Close(ctx); err != nil {
		f.t.Error(err)
	}
	if _, err := f.client.Resume(ctx, f.session.Token()); !errors.Is(err, session.ErrBadCredential) &&
		!errors.Is(err, session.ErrExpired) {
		f.t.Errorf("the token of the former session: %v", err)
	}
}

// TestBackupDrill does what docs/operations says, with its own words, for nodes that are processes: a backup, the
// start of a new cluster from it, and another one from the directory that is left of three.
func TestBackupDrill(t *testing.T) {
	t.Parallel()
	p := newProcesses(t, 3)
	for _, n := range p.c.all() {
		p.start(n)
	}
	p.c.awaitServing(healWithin, p.c.all()...)
	d := newDrill(t, p.c)
	d.env = append(d.env, "PEERS="+p.peers)
	held := hold(t, p.c, "first")
	if out := d.types("backup", ""); !strings.Contains(out, "sha256") {
		t.Errorf("backup:\n%s", out)
	}
	for _, n := range p.c.all() {
		p.stop(n)
	}
	if out := d.types("restore", ""); !strings.Contains(out, "Start node") {
		t.Errorf("restore:\n%s", out)
	}
	began := p.begin(filepath.Join(d.dir, "restored"), "orders-2")
	took(t, "restored, and served again after", time.Since(began))
	held.restored(p.c)

	held = hold(t, p.c, "second")
	for _, n := range p.c.all() {
		p.stop(n)
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(d.dir, "former"), 0o700),
		os.Rename(p.data(1), filepath.Join(d.dir, "former", "1"))); err != nil {
		t.Fatal(err)
	}
	if out := d.types("recover", "orders-2\n"); !strings.Contains(out, `node 1 of cluster "orders-2"`) {
		t.Errorf("recover:\n%s", out)
	}
	p.begin(filepath.Join(d.dir, "recovered"), "orders-3")
	held.restored(p.c)
}

// begin starts nodes on directories that were made elsewhere, in a cluster of another id.
func (p *processes) begin(from, cluster string) (began time.Time) {
	p.c.t.Helper()
	began = time.Now()
	for _, n := range p.c.all() {
		timeout.Check(p.c.t, errors.Join(os.RemoveAll(p.data(n)), os.Rename(filepath.Join(from, fmt.Sprint(n)), p.data(n))))
		p.start(n, "--cluster-id", cluster)
	}
	p.c.awaitServing(healWithin, p.c.all()...)
	return began
}

// TestBackupDrillInContainers types what docs/operations says about the cluster of "make up": a broken network, one
// with TLS, one of five nodes, and TestBackupDrill.
func TestBackupDrillInContainers(t *testing.T) {
	for _, project := range []string{"holdfast3", "holdfast5"} {
		of := "label=com.docker.compose.project=" + project
		if there := must(t, "docker", "ps", "-aq", "--filter", of); there != "" {
			t.Fatal("the cluster of make up is there, and this test would remove it: run make down first")
		}
	}
	c := &cluster{t: t, nodes: 3, project: "holdfast3", ports: 174}
	d := newDrill(t, c)
	d.hasPrograms()
	t.Cleanup(func() {
		if timeout.Ended(t) {
			c.keepLogs()
		}
		d.runs("make down DATA=remove", "")
	})
	d.network()
	d.secured()
	d.says("make up NODES=5", "")
	if out := d.runs("holdfast cluster members --endpoints 127.0.0.1:17450", ""); strings.Count(out, "\n") < 6 {
		t.Errorf("five nodes:\n%s", out)
	}
	d.says("make down", "DATA=remove")

	d.runs("make up", "")
	held := hold(t, c, "first")
	d.types("backup", "")
	d.types("restore in containers", "")
	held.restored(c)
	if s, err := c.status(1); err != nil || s.ClusterID != "holdfast-2" {
		t.Errorf("node 1 is of cluster %q, %v", s.ClusterID, err)
	}
	d.types("recover in containers", "")
	held.restoredAgain(c)
	if s, err := c.status(1); err != nil || s.ClusterID != "holdfast-3" {
		t.Errorf("node 1 is of cluster %q, %v", s.ClusterID, err)
	}
}

// restoredAgain checks that what the second cluster had is in the third.
func (f *former) restoredAgain(c *cluster) {
	f.t.Helper()
	n, err := client.New(c.config(c.all()...))
	timeout.Check(f.t, err)
	defer n.Close()
	ctx, cancel := context.WithTimeout(f.t.Context(), healWithin)
	defer cancel()
	for _, path := range []string{f.name + "-kept", f.name + "-new"} {
		if _, err := n.Tree().Get(ctx, path); err != nil {
			f.t.Errorf("%s: %v", path, err)
		}
	}
}
