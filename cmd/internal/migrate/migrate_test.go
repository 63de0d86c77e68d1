package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/cmd/internal/migrate"
	"holdfast/node/config"
	"holdfast/test/whole"
	"holdfast/tree"
)

// source is a tree to copy, without a ZooKeeper.
type source struct {
	mu      sync.Mutex
	entries map[string]migrate.Node
	refused map[string]error
	// reads counts calls; after the last of them each fails. Negative is for ever.
	reads int
}

var errCut = errors.New("the source is cut off")

func (s *source) read(path string) (migrate.Node, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reads == 0 {
		return migrate.Node{}, false, errCut
	}
	s.reads--
	n, is := s.entries[path]
	for other := range s.entries {
		if other != tree.Root && tree.Parent(other) == path {
			n.Children++
		}
	}
	if n.Made >= 0 {
		n.Made = max(n.Made, n.Children)
	}
	return n, is, s.refused[path]
}

// Sync implements [migrate.Source].
func (s *source) Sync(context.Context) error {
	_, _, err := s.read(tree.Root)
	return err
}

// Node implements [migrate.Source].
func (s *source) Node(_ context.Context, path string) (migrate.Node, bool, error) {
	return s.read(path)
}

// Children implements [migrate.Source].
func (s *source) Children(_ context.Context, path string) (migrate.Children, bool, error) {
	n, is, err := s.read(path)
	c := migrate.Children{Made: n.Made}
	s.mu.Lock()
	defer s.mu.Unlock()
	for other := range s.entries {
		if other != tree.Root && tree.Parent(other) == path {
			c.Names = append(c.Names, tree.Name(other))
		}
	}
	return c, is, err
}

// super is super:test, which bypasses access lists.
const super = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="

var (
	open   = tree.ACL{{Permissions: tree.All, Scheme: "world", ID: "anyone"}}
	closed = tree.ACL{
		{Permissions: tree.All, Scheme: "digest", ID: super},
		{Permissions: tree.Read, Scheme: "world", ID: "anyone"},
	}
)

// application is a tree with all that an entry can have.
func application() *source {
	s := &source{reads: -1, refused: map[string]error{}, entries: map[string]migrate.Node{
		"/":                {ACL: open},
		"/app":             {ACL: open, Data: []byte("an application"), Version: 3},
		"/app/null":        {ACL: open},
		"/app/empty":       {ACL: open, Data: []byte{}},
		"/app/list":        {ACL: closed, Data: []byte("closed"), ACLVersion: 4},
		"/app/list/below":  {ACL: open, Data: []byte("open"), Version: 40, ACLVersion: 2},
		"/app/queue":       {ACL: open, Made: 30},
		"/app/queue/i":     {ACL: open}, // the name by which a counter is raised
		"/app/queue/ii":    {ACL: open},
		"/app/done":        {ACL: open, Made: 7},
		"/app/members":     {ACL: open},
		"/app/members/one": {Ephemeral: true},
	}}
	return s
}

// persistent is how many entries of application are copied, the root not counted.
const persistent = 10

// target is the tree of a session. A fault of it ends a copy.
type target struct {
	*client.Tree
	// writes counts those that are left until the target is cut off, before or after the write takes effect.
	mu     sync.Mutex
	writes int
	after  bool
}

func (x *target) Transact(ctx context.Context, w tree.Transaction, o ...client.WriteOption) (client.Transacted, error) {
	x.mu.Lock()
	cut := x.writes == 0
	x.writes--
	x.mu.Unlock()
	if cut && !x.after {
		return client.Transacted{}, errCut
	}
	done, err := x.Tree.Transact(ctx, w, o...)
	if cut {
		return client.Transacted{}, errors.Join(errCut, err)
	}
	return done, err
}

var options = migrate.Options{InFlight: 4, MaxVersion: 1000, MaxCounter: 1000, Timeout: time.Minute}

// run calls f in a bubble with a cluster, and the tree of a session in it.
func run(t *testing.T, f func(t *testing.T, to *client.Tree)) {
	t.Helper()
	whole.RunSetup(t, whole.Setup{Change: func(cfg *config.Config) { cfg.Tree.Super = super }}, func(c *whole.Cluster) {
		cl, err := client.New(client.Config{
			Endpoints: []string{"n1:7400", "n2:7400", "n3:7400"}, Digests: []string{"super:test"}, Dial: c.Host("importer").Dial,
		})
		if err != nil {
			c.T.Fatal(err)
		}
		defer cl.Close()
		f(c.T, c.Session(cl, time.Minute).Tree())
	})
}

// copied is a copy that ends well.
func copied(t *testing.T, from migrate.Source, to migrate.Target, o migrate.Options) migrate.Summary {
	t.Helper()
	s, err := migrate.Run(t.Context(), from, to, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// holds fails unless the target has all of the source. It reads on its own.
func holds(t *testing.T, s *source, to *client.Tree) {
	t.Helper()
	for path, want := range s.entries {
		e, err := to.Get(t.Context(), path)
		if want.Ephemeral {
			if !refused(err, tree.NoNode) {
				t.Errorf("%s: %v, want no ephemeral", path, err)
			}
			continue
		}
		list, errList := to.GetACL(t.Context(), path)
		if err = errors.Join(err, errList); err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if string(e.Data) != string(want.Data) || (e.Data == nil) != (want.Data == nil) || e.Stat.Version != want.Version {
			t.Errorf("%s: data %q of version %d, want %q of %d", path, e.Data, e.Stat.Version, want.Data, want.Version)
		}
		if list.Inherited || !slices.Equal(list.ACL, want.ACL) || list.Stat.ACLVersion != want.ACLVersion {
			t.Errorf("%s: list %v of version %d, want %v of %d", path, list.ACL, list.Stat.ACLVersion, want.ACL,
				want.ACLVersion)
		}
	}
}

func refused(err error, code tree.Code) bool { return errors.Is(err, &tree.RefusedError{Code: code}) }

// next is the number of the next sequential name below a path.
func next(t *testing.T, to *client.Tree, path string) int64 {
	t.Helper()
	e, err := to.Get(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return (e.Stat.ChildrenVersion + int64(e.Stat.Children)) / 2
}

// TestCopy copies all that an entry has.
func TestCopy(t *testing.T) {
	run(t, func(t *testing.T, to *client.Tree) {
		t.Helper()
		s := application()
		got := copied(t, s, to, options) // three counters: members had a child too
		if c := got.Copied; !got.Equal || c.Created != persistent || c.Ephemerals != 1 || c.Counters != 3 ||

			len(got.Problems) != 0 {
			t.Errorf("%+v %+v %v", got, got.Copied, got.Problems)
		}
		delete(s.entries, "/") // its versions are the cluster's own
		holds(t, s, to)
		for path, want := range map[string]int64{"/app/queue": 30, "/app/done": 7, "/app/null": 0} {
			if n := next(t, to, path); n != want {
				t.Errorf("the next name below %s has number %d, want %d", path, n, want)
			}
		}
	})
}

// TestCutOff interrupts a copy at each of its writes, before and after it takes effect, and runs the same command
// again. Every entry in between is complete: the data and list of the source, with the versions reached so far.
func TestCutOff(t *testing.T) {
	run(t, func(t *testing.T, to *client.Tree) {
		t.Helper()
		cuts := 0
		for _, after := range []bool{false, true} {
			for writes := 0; ; writes++ {
				s, root := application(), fmt.Sprintf("/cut/%v-%d", after, writes)
				below, err := to.Chroot(root)
				if err != nil {
					t.Fatal(err)
				}
				_, err = migrate.Run(t.Context(), s, &target{Tree: below, writes: writes, after: after}, options)
				if err == nil {
					break
				}
				if cuts++; !errors.Is(err, errCut) {
					t.Fatalf("cut off after %d writes: %v", writes, err)
				}
				whole := intact(t, s, below)
				got := copied(t, s, below, options)
				c := got.Copied
				if !got.Equal || c.Created+c.Equal+c.Raised != persistent+1 || int(c.Created) > persistent+1-whole {
					t.Errorf("after %d writes, and %d entries: %+v %v", writes, whole, c, got.Problems)
				}
				holds(t, s, below)
				if n := next(t, below, "/app/queue"); n != 30 {
					t.Errorf("after %d writes: the next name has number %d", writes, n)
				}
			}
		}
		if cuts < 2*persistent {
			t.Errorf("cut off %d times", cuts)
		}
	})
}

// intact checks the entries that a copy has left, and returns their number.
func intact(t *testing.T, s *source, to *client.Tree) (entries int) {
	t.Helper()
	for path, want := range s.entries {
		e, err := to.Get(t.Context(), path)
		if refused(err, tree.NoNode) {
			continue
		}
		list, errList := to.GetACL(t.Context(), path)
		if err = errors.Join(err, errList); err != nil {
			t.Fatal(err)
		}
		entries++
		if !slices.Equal(list.ACL, want.ACL) || e.Stat.Version > want.Version || e.Stat.Version == want.Version &&
			string(e.Data) != string(want.Data) {
			t.Errorf("%s was left with %q, version %d and %v", path, e.Data, e.Stat.Version, list.ACL)
		}
	}
	return entries
}

// TestSourceCutOff ends a copy with the error of the source, at each of its reads, and goes on later.
func TestSourceCutOff(t *testing.T) {
	run(t, func(t *testing.T, to *client.Tree) {
		t.Helper()
		s, cuts := application(), 0
		for reads := 0; ; reads++ {
			s.reads = reads
			got, err := migrate.Run(t.Context(), s, to, options)
			if err == nil {
				if !got.Equal {
					t.Errorf("%+v", got)
				}
				break
			}
			if cuts++; !errors.Is(err, errCut) {
				t.Fatal(err)
			}
		}
		if cuts < persistent {
			t.Errorf("cut off %d times", cuts)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		s.reads = -1
		if _, err := migrate.Run(ended, s, to, options); !errors.Is(err, context.Canceled) {
			t.Errorf("a copy whose caller has gone: %v", err)
		}
	})
}

// TestVerify finds each kind of difference, and changes nothing.
func TestVerify(t *testing.T) {
	for _, one := range []struct {
		path, field string
		kind        migrate.Kind
		change      func(s *source, n *migrate.Node)
	}{
		{"/app/null", "data", migrate.Different, func(_ *source, n *migrate.Node) { n.Data = []byte{} }},
		{"/app/empty", "data", migrate.Different, func(_ *source, n *migrate.Node) { n.Data = nil }},
		{"/app", "data", migrate.Different, func(_ *source, n *migrate.Node) { n.Data = []byte("an Application") }},
		{"/app/list", "acl", migrate.Different, func(_ *source, n *migrate.Node) { n.ACL = open }},
		{"/app", "version", migrate.Different, func(_ *source, n *migrate.Node) { n.Version = 4 }},
		{"/app/list", "acl_version", migrate.Different, func(_ *source, n *migrate.Node) { n.ACLVersion = 5 }},
		{"/app/queue", "counter", migrate.Different, func(_ *source, n *migrate.Node) { n.Made = 31 }},
		{"/app/new", "entry", migrate.Different, func(_ *source, n *migrate.Node) { n.ACL = open }},
		{"/app/null", "entry", migrate.Extra, func(s *source, n *migrate.Node) {
			delete(s.entries, "/app/null")
			n.Ephemeral = true
		}},
		{"/app/list", "acl", migrate.Refused, func(s *source, _ *migrate.Node) {
			s.refused["/app/list"] = &migrate.RefusalError{Field: "acl", Why: "is hidden"}
		}},
	} {
		t.Run(strings.ReplaceAll(string(one.kind)+" "+one.path+" "+one.field, "/", " "), func(t *testing.T) {
			run(t, func(t *testing.T, to *client.Tree) {
				t.Helper()
				s := application()
				copied(t, s, to, options)
				before := maps.Clone(s.entries)
				n := s.entries[one.path]
				one.change(s, &n)
				s.entries[one.path] = n
				verify := options
				verify.VerifyOnly = true
				got := copied(t, s, to, verify)
				got.Problems = slices.DeleteFunc(got.Problems, func(p migrate.Problem) bool {
					return p.Path == "/app" && p.Field == "counter" && one.field == "entry" // of the child that is missing
				})
				if got.Equal || got.Copied != nil || len(got.Problems) != 1 {
					t.Fatalf("%+v", got)
				}
				if p := got.Problems[0]; p.Path != one.path || p.Field != one.field || p.Kind != one.kind {
					t.Errorf("found %v", p)
				}
				s.entries = before
				delete(s.entries, "/")
				holds(t, s, to)
			})
		})
	}
}

// TestOverwrite leaves differing entries unless it is to replace and delete them.
func TestOverwrite(t *testing.T) {
	run(t, func(t *testing.T, to *client.Tree) {
		t.Helper()
		s := application()
		copied(t, s, to, options)
		s.entries["/app"] = migrate.Node{ACL: open, Data: []byte("changed"), Version: 9}
		s.entries["/app/list"] = migrate.Node{ACL: open, Data: []byte("closed"), ACLVersion: 5}
		s.entries["/app/null"] = migrate.Node{ACL: open, Data: []byte("made again")} // its version is lower than here
		delete(s.entries, "/app/queue/ii")
		if _, err := to.Set(t.Context(), "/app/null", []byte("mine")); err != nil {
			t.Fatal(err)
		}
		got := copied(t, s, to, options)
		if c := got.Copied; got.Equal || c.Conflicts != 3 || c.Overwritten+c.Deleted != 0 {
			t.Errorf("%+v %+v", c, got.Problems)
		}
		if e, err := to.Get(t.Context(), "/app/null"); err != nil || string(e.Data) != "mine" {
			t.Errorf("a conflict became %q, %v", e.Data, err)
		}
		with := options
		with.Overwrite, with.Delete = true, true
		got = copied(t, s, to, with)
		if c := got.Copied; !got.Equal || c.Conflicts != 0 || c.Overwritten != 3 || c.Deleted != 1 || c.Ahead != 1 {
			t.Errorf("%+v %+v", c, got.Problems)
		}
		want := s.entries["/app/null"]
		want.Version = 2 // a version cannot be lowered
		s.entries["/app/null"] = want
		delete(s.entries, "/")
		holds(t, s, to)
	})
}

// TestKinds: an entry of another kind is never replaced.
func TestKinds(t *testing.T) {
	run(t, func(t *testing.T, to *client.Tree) {
		t.Helper()
		s := application()
		if _, err := to.Create(t.Context(), "/app", nil, client.CreateOptions{Kind: tree.Ephemeral}); err != nil {
			t.Fatal(err)
		}
		with := options
		with.Overwrite, with.Delete = true, true
		got := copied(t, s, to, with)
		if c := got.Copied; got.Equal || c.Conflicts != 1 || c.Created != 0 || got.Problems[0].Field != "kind" {
			t.Errorf("%+v %v", c, got.Problems)
		}
	})
}

// TestLimits: entries that cannot be kept are refused or counted, and the others are copied.
func TestLimits(t *testing.T) {
	run(t, func(t *testing.T, to *client.Tree) {
		t.Helper()
		s := application()
		s.entries["/app/overflowed"] = migrate.Node{ACL: open, Made: -1}
		s.entries["/app/far"] = migrate.Node{ACL: open, Made: 1001}
		s.entries["/app/high"] = migrate.Node{ACL: open, Data: []byte("x"), Version: 1001}
		s.entries["/app/negative"] = migrate.Node{ACL: open, Version: -5}
		s.entries["/app/large"] = migrate.Node{ACL: open, Data: make([]byte, tree.MaxRequest)}
		s.entries["/app/large/below"] = migrate.Node{ACL: open}
		s.entries["/app/scheme"] = migrate.Node{ACL: tree.ACL{{Permissions: tree.All, Scheme: "sasl", ID: "x"}}}
		s.refused["/app/hidden"] = &migrate.RefusalError{Field: "entry", Why: "is hidden"}
		s.entries["/app/hidden"] = migrate.Node{}
		got := copied(t, s, to, options)
		why := map[string]string{}
		for _, p := range got.Problems {
			if p.Kind == migrate.Refused {
				why[p.Path] = p.Field
			}
		}
		want := map[string]string{
			"/app/overflowed": "counter", "/app/far": "counter", "/app/large": "data", "/app/scheme": "acl",
			"/app/hidden": "entry",
		}
		if c := got.Copied; got.Equal || !maps.Equal(why, want) || c.Refused != 5 || c.Lost != 2 ||
			c.Created != persistent+4 {
			t.Errorf("%+v %v", c, why)
		}
		if e, err := to.Get(t.Context(), "/app/high"); err != nil || string(e.Data) != "x" || e.Stat.Version != 0 {
			t.Errorf("%+v %v", e, err)
		}
		if n := next(t, to, "/app/far"); n != 0 {
			t.Errorf("a counter that is refused was raised to %d", n)
		}
	})
}
