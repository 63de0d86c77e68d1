package client

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"holdfast/session"
	"holdfast/tree"
)

func below(t *testing.T, root string) *Tree {
	t.Helper()
	all := &Tree{}
	chroot, err := all.Chroot(root)
	if err != nil {
		t.Fatal(err)
	}
	return chroot
}

// Paths go in below the chroot, and come out as they went in.
func TestChroot(t *testing.T) {
	for _, c := range []struct{ root, path, full string }{
		{"/", "/", "/"}, {"/", "/a", "/a"}, {"/app", "/", "/app"}, {"/app", "/a/b", "/app/a/b"},
	} {
		in := below(t, c.root)
		full, err := in.full(c.path)
		if err != nil || full != c.full || in.relative(full) != c.path || in.Root() != c.root {
			t.Errorf("%s below %s is %q, %v and comes back as %q, want %q", c.path, c.root, full, err, in.relative(full),
				c.full)
		}
	}
	if got := below(t, "/app").relative("/apple"); got != "/apple" {
		t.Errorf("a path beside the chroot comes out as %q", got)
	}
	for _, bad := range []string{"", "a", "/a/", "/../b", "/" + strings.Repeat("a", tree.MaxPath-4)} {
		for _, fullOf := range []func(string) (string, error){below(t, "/app").full, below(t, "/app").fullPrefix} {
			full, err := fullOf(bad)
			if wrong, is := errors.AsType[*tree.PathError](err); (!is || wrong.Path != bad) && full != "/app/a/" {
				t.Errorf("%q below a chroot is %q with %v, want a PathError with it", bad, full, err)
			}
		}
	}
}

// Every operation of a transaction gets the chroot, and so does the prefix of a sequential create.
func TestChrootOfTransactions(t *testing.T) {
	full, err := below(t, "/app").fullTransaction(tree.Transaction{
		If: []tree.Condition{{Path: "/c"}},
		Then: []tree.Op{
			tree.Create{Path: "/a"},
			tree.Create{Path: "/locks/", Sequential: true},
			tree.Set{Path: "/a"},
			tree.Delete{Path: "/a"},
		},
		Else: []tree.Op{tree.DeleteTree{Path: "/a"}, tree.SetACL{Path: "/"}, tree.Check{Path: "/a"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := []string{full.If[0].Path}
	for _, op := range slices.Concat(full.Then, full.Else) {
		got = append(got, op.Target())
	}
	want := []string{"/app/c", "/app/a", "/app/locks/", "/app/a", "/app/a", "/app/a", "/app", "/app/a"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	large := tree.Transaction{Then: []tree.Op{tree.Set{Path: "/a", Data: make([]byte, tree.MaxRequest)}}}
	if _, err := below(t, "/app").fullTransaction(large); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("a transaction that is too large: %v, want ErrInvalid", err)
	}
	if _, err := below(t, "/app").fullOps([]tree.Op{nil}); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("no operation: %v, want ErrInvalid", err)
	}
}

// The application finds its own paths in refusals.
func TestRefusalsBelowTheChroot(t *testing.T) {
	refused := &tree.WriteError{
		Refused: &tree.RefusedError{Code: tree.NoParent, Verb: "create", Path: "/app/a"}, At: 2, Stamp: 7,
	}
	err := below(t, "/app").wrap("create", "/a/b", refused)
	write, ok := errors.AsType[*tree.WriteError](err)
	if !ok || write.Refused.Path != "/a" || write.At != 2 || write.Stamp != 7 ||
		!errors.Is(err, &tree.RefusedError{Code: tree.NoParent}) {
		t.Errorf("got %#v", err)
	}
	if refused.Refused.Path != "/app/a" {
		t.Error("the refusal was changed in its place")
	}
}

// What the paths of ephemerals begin with, and come behind, is below the chroot: the name of a neighbour may begin with
// that of the chroot.
func TestEphemeralsBelowTheChroot(t *testing.T) {
	for _, of := range []EphemeralsOf{
		{Prefix: "-secret/"}, {Prefix: "le"}, {After: "-secret/a"}, {Prefix: "/a", After: "a"},
	} {
		if got, err := below(t, "/app").ephemerals(of); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%+v asks for %+v, %v, want ErrInvalid", of, got, err)
		}
	}
	for _, c := range []struct {
		root string
		of   EphemeralsOf
		want tree.Query
	}{
		{"/", EphemeralsOf{}, tree.Query{}},
		{"/", EphemeralsOf{Prefix: "/a", After: "/ab"}, tree.Query{Path: "/a", After: "/ab"}},
		{"/app", EphemeralsOf{}, tree.Query{Path: "/app/"}},
		{"/app", EphemeralsOf{Prefix: "/x", After: "/xy"}, tree.Query{Path: "/app/x", After: "/app/xy"}},
	} {
		if got, err := below(t, c.root).ephemerals(c.of); err != nil || got.Path != c.want.Path || got.After != c.want.After {
			t.Errorf("%+v below %s asks for %+v, %v, want %+v", c.of, c.root, got, err, c.want)
		}
	}
}

// A tree without a session does not write.
func TestWritesNeedASession(t *testing.T) {
	if _, err := (&Tree{}).Create(t.Context(), "/a", nil, CreateOptions{}); !errors.Is(err, ErrNoSession) {
		t.Errorf("got %v, want ErrNoSession", err)
	}
}

// A client's digests are checked, and never shown.
func TestDigestsAreChecked(t *testing.T) {
	for _, bad := range []string{"secret", ":secret", "a:secret\n", "a:secret ", "a:" + strings.Repeat("secret", 50)} {
		_, err := New(Config{Endpoints: []string{"n1:7400"}, Digests: []string{bad}})
		if !errors.Is(err, session.ErrInvalid) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	_, err := New(Config{Endpoints: []string{"n1:7400"}, Digests: make([]string, MaxDigests+1)})
	if !errors.Is(err, session.ErrInvalid) {
		t.Errorf("too many: %v", err)
	}
}
