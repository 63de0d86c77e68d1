package migrate_test

import (
	"slices"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/cmd/internal/migrate"
	"holdfast/tree"
)

// made makes entries at the target, in order.
func made(t *testing.T, to *client.Tree, entries ...kindOf) {
	t.Helper()
	for _, e := range entries {
		o := client.CreateOptions{Kind: e.kind}
		if e.kind == tree.Expiring {
			o.TTL = time.Hour
		}
		if _, err := to.Create(t.Context(), e.path, []byte("x"), o); err != nil {
			t.Fatal(err)
		}
	}
}

// kindOf is an entry to make.
type kindOf struct {
	path string
	kind tree.Kind
}

// extras are the paths that a summary says are at the target alone.
func extras(s migrate.Summary) (paths []string) {
	for _, p := range s.Problems {
		if p.Kind == migrate.Extra {
			paths = append(paths, p.Path)
		}
	}
	slices.Sort(paths)
	return paths
}

// TestExtrasBelowTemporaryEntries: containers, TTL entries and ephemerals of the target alone are no difference.
// Permanent entries below them are one: they keep them from ending.
func TestExtrasBelowTemporaryEntries(t *testing.T) {
	run(t, func(t *testing.T, to *client.Tree) {
		t.Helper()
		s := application()
		copied(t, s, to, options)
		made(t, to,
			kindOf{"/app/brief", tree.Expiring},
			kindOf{"/app/brief/lasts", tree.Persistent},
			kindOf{"/app/locks", tree.Container},
			kindOf{"/app/locks/empty", tree.Container},
			kindOf{"/app/locks/held", tree.Ephemeral},
			kindOf{"/app/locks/lasts", tree.Persistent},
			kindOf{"/app/locks/lasts/below", tree.Persistent}, // goes with the one above it
			kindOf{"/app/locks/of", tree.Container},
			kindOf{"/app/locks/of/brief", tree.Expiring},
			kindOf{"/app/locks/of/brief/lasts", tree.Persistent},
			kindOf{"/app/members/one", tree.Container}, // an ephemeral of the source
			kindOf{"/app/members/one/lasts", tree.Persistent},
		)
		want := []string{"/app/brief/lasts", "/app/locks/lasts", "/app/locks/of/brief/lasts", "/app/members/one/lasts"}
		verify, with := options, options
		verify.VerifyOnly, with.Delete = true, true
		for _, o := range []migrate.Options{verify, options} {
			got := copied(t, s, to, o)
			if found := extras(got); got.Equal || !slices.Equal(found, want) || got.Verified.Extra != int64(len(want)) {
				t.Errorf("%+v: extra are %v, want %v: %+v", o, found, want, got.Verified)
			}
		}
		got := copied(t, s, to, with)
		if !got.Equal || got.Copied.Deleted != int64(len(want))+1 || len(got.Problems) != 0 {
			t.Errorf("%+v %+v", got, got.Copied)
		}
		for _, path := range want {
			if _, is, err := to.Exists(t.Context(), path); is || err != nil {
				t.Errorf("%s is there: %v, %v", path, is, err)
			}
		}
		if _, is, err := to.Exists(t.Context(), "/app/locks/held"); !is || err != nil {
			t.Errorf("a lock that is held is there: %v, %v", is, err)
		}
		delete(s.entries, "/")
		delete(s.entries, "/app/members/one") // the target has its container
		holds(t, s, to)
	})
}

// TestContainersOfBothSides: a container where the source has an entry is of another kind. Entries below it are still
// compared, copied and deleted.
func TestContainersOfBothSides(t *testing.T) {
	run(t, func(t *testing.T, to *client.Tree) {
		t.Helper()
		s := application()
		made(t, to,
			kindOf{"/app", tree.Container},
			kindOf{"/app/list", tree.Expiring},
			kindOf{"/app/list/lasts", tree.Persistent},
			kindOf{"/app/locks", tree.Container},
			kindOf{"/app/locks/lasts", tree.Persistent},
		)
		verify, with := options, options
		verify.VerifyOnly, with.Delete, with.Overwrite = true, true, true
		want := []string{"/app/list/lasts", "/app/locks/lasts"}
		if got := copied(t, s, to, verify); got.Equal || !slices.Equal(extras(got), want) {
			t.Errorf("extra are %v, want %v", extras(got), want)
		}
		got := copied(t, s, to, with)
		if c, v := got.Copied, got.Verified; got.Equal || c.Deleted != int64(len(want)) || c.Conflicts != 2 || v.Extra != 0 ||
			v.Different != 2 {
			t.Errorf("%+v %+v %+v", c, v, got.Problems)
		}
		for _, path := range []string{"/", "/app", "/app/list"} {
			delete(s.entries, path)
		}
		holds(t, s, to)
	})
}

// TestAnEntryOfTheClustersName: an application of a chroot may have its own entry zookeeper. It is reported when it
// would be the cluster's, and copied otherwise.
func TestAnEntryOfTheClustersName(t *testing.T) {
	run(t, func(t *testing.T, to *client.Tree) {
		t.Helper()
		s := application()
		s.entries["/zookeeper"] = migrate.Node{ACL: closed, Data: []byte("an application's")}
		s.entries["/zookeeper/below"] = migrate.Node{ACL: open}
		over := options
		over.Overwrite = true
		for range 2 {
			got := copied(t, s, to, over)
			if got.Equal || got.Copied.Refused != 1 || len(got.Problems) == 0 || got.Problems[0].Path != "/zookeeper" ||
				got.Problems[0].Field != "path" {
				t.Errorf("over the cluster's own: %+v %v", got.Copied, got.Problems)
			}
		}
		if e, err := to.Get(t.Context(), "/zookeeper"); err != nil || e.Data != nil {
			t.Errorf("the cluster's own entry has %q, %v", e.Data, err)
		}
		below, err := to.Chroot("/moved")
		if err != nil {
			t.Fatal(err)
		}
		if got := copied(t, s, below, options); !got.Equal {
			t.Errorf("below a path: %+v %v", got.Copied, got.Problems)
		}
		holds(t, s, below)
	})
}

// TestAnEphemeralRoot: a chroot that is an ephemeral ends the copy, and nothing is made of it.
func TestAnEphemeralRoot(t *testing.T) {
	run(t, func(t *testing.T, to *client.Tree) {
		t.Helper()
		below, err := to.Chroot("/moved")
		if err != nil {
			t.Fatal(err)
		}
		s := application()
		s.entries["/"] = migrate.Node{Ephemeral: true}
		if got, err := migrate.Run(t.Context(), s, below, options); err == nil {
			t.Errorf("copied %+v: %v", got.Copied, got.Problems)
		}
		if _, is, err := to.Exists(t.Context(), "/moved"); is || err != nil {
			t.Errorf("an entry was made: %v, %v", is, err)
		}
	})
}
