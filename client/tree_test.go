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
		if full, err := below(t, "/app").full(bad); !errors.Is(err, tree.ErrPath) {
			t.Errorf("%q below a chroot is %q with %v, want ErrPath", bad, full, err)
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

// A tree without a session does not write.
func TestWritesNeedASession(t *testing.T) {
	if _, err := (&Tree{}).Create(t.Context(), "/a", nil, CreateOptions{}); !errors.Is(err, ErrNoSession) {
		t.Errorf("got %v, want ErrNoSession", err)
	}
}

// What a client authenticates with is checked, and never shown.
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
