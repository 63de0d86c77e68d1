package tree_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holdfast/tree"
)

func TestCheckPath(t *testing.T) {
	deep := strings.Repeat("/a", tree.MaxDepth)
	long := "/" + strings.Repeat("x", tree.MaxPath-1)
	for _, path := range []string{"/", "/a", "/a/b c", "/a.b/..c", "/\u00e4/\u4e2d", "/a\u00a0", "/a\uffef", deep, long} {
		if err := tree.CheckPath(path); err != nil {
			t.Error(err)
		}
	}
	for path, why := range map[string]string{
		"": "is empty", "a": "begin with a slash", "/a/": "empty name", "//": "empty name", "/a//b": "empty name",
		"/./a": "never relative", "/a/..": "never relative", "/a\x00": "U+0000", "/a\x1f": "U+001F", "/a\x7f": "U+007F",
		"/a\u009f": "U+009F", "/a\ue000": "U+E000", "/a\uf8ff": "U+F8FF", "/a\ufff0": "U+FFF0", "/a\U0001f600": "U+1F600",
		"/a\xff": "not UTF-8", deep + "/a": "256 names: at most 255", long + "x": "4097 bytes: at most 4096",
	} {
		var refused *tree.PathError
		err := tree.CheckPath(path)
		if !errors.As(err, &refused) || !errors.Is(err, tree.ErrPath) || !strings.Contains(refused.Why, why) {
			t.Errorf("%.20q: %v, want one that says %q", path, err, why)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	}
}

func TestCheckPrefix(t *testing.T) {
	for _, prefix := range []string{"/", "/a", "/a/", "/locks/lock-"} {
		if err := tree.CheckPrefix(prefix); err != nil {
			t.Error(err)
		}
	}
	for _, prefix := range []string{"", "a", "//", "/a//", "/" + strings.Repeat("x", tree.MaxPath-10)} {
		var refused *tree.PathError
		if err := tree.CheckPrefix(prefix); !errors.As(err, &refused) || refused.Path != prefix {
			t.Errorf("%.20q: %v", prefix, err)
		}
	}
}

func TestPathParts(t *testing.T) {
	for _, c := range []struct {
		path, parent, name string
		depth              int
	}{{"/", "", "", 0}, {"/a", "/", "a", 1}, {"/a/b", "/a", "b", 2}} {
		parent, name, depth := tree.Parent(c.path), tree.Name(c.path), tree.Depth(c.path)
		if parent != c.parent || name != c.name || depth != c.depth {
			t.Errorf("%s: parent %q, name %q, depth %d", c.path, parent, name, depth)
		}
		if c.path != tree.Root && tree.Join(c.parent, c.name) != c.path {
			t.Errorf("%s joined is %s", c.path, tree.Join(c.parent, c.name))
		}
	}
	for _, c := range []struct {
		path, ancestor string
		below          bool
	}{
		{"/a", "/", true},
		{"/", "/", false},
		{"/a/b", "/a", true},
		{"/a", "/a", false},
		{"/ab", "/a", false},
		{"/a/b/c", "/a", true},
		{"/a", "/a/b", false},
	} {
		if tree.Below(c.path, c.ancestor) != c.below {
			t.Errorf("%s below %s: %v", c.path, c.ancestor, !c.below)
		}
	}
}

// TestStamps: stamps are in the order of index and position, positive as signed numbers, and read as they were shown.
func TestStamps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func() (uint64, int, tree.Stamp) {
			i, p := rapid.Uint64Max(tree.MaxIndex).Draw(t, "index"), rapid.IntRange(0, tree.MaxPosition).Draw(t, "position")
			return i, p, tree.StampAt(i, p)
		}
		i, p, a := draw()
		j, q, b := draw()
		if a.Index() != i || a.Position() != p || int64(a) < 0 || (a < b) != (i < j || i == j && p < q) {
			t.Fatalf("stamps of (%d, %d) and (%d, %d): %v, %v", i, p, j, q, a, b)
		}
		if read, err := tree.ParseStamp(a.String()); err != nil || read != a {
			t.Fatalf("%v read as %v: %v", a, read, err)
		}
	})
	for _, text := range []string{"", "1", "1.", ".1", "1.65536", "140737488355328.0", "-1.0", "1.0.0", "1.+1"} {
		if s, err := tree.ParseStamp(text); err == nil {
			t.Errorf("%q read as %v", text, s)
		}
	}
	if last := tree.StampAt(tree.MaxIndex, tree.MaxPosition); last != math.MaxInt64 {
		t.Errorf("the last stamp is %d", last)
	}
}

func TestACL(t *testing.T) {
	joe, here := tree.Principal{Scheme: tree.Digest, ID: "joe:hash"}, tree.Principal{Scheme: tree.IP, ID: "10.1.2.3"}
	acl := tree.ACL{
		{Permissions: tree.Read, Scheme: tree.World, ID: tree.Anyone},
		{Permissions: tree.Write, Scheme: tree.IP, ID: "10.1.0.0/16"},
		{Permissions: tree.Admin | tree.CreateChild, Scheme: tree.Digest, ID: "joe:hash"},
	}
	for _, c := range []struct {
		wanted tree.Permissions
		who    []tree.Principal
		grants bool
	}{
		{tree.Read, nil, true},
		{tree.Write, nil, false},
		{tree.Write, []tree.Principal{here}, true},
		{tree.Write, []tree.Principal{{Scheme: tree.IP, ID: "10.2.2.3"}}, false},
		{tree.Write, []tree.Principal{{Scheme: tree.IP, ID: "::ffff:10.1.2.3"}}, true},
		{tree.Admin, []tree.Principal{joe}, true},
		{tree.Admin | tree.Write, []tree.Principal{joe}, false},
		{tree.Admin | tree.Write, []tree.Principal{joe, here}, true},
		{tree.DeleteChild, []tree.Principal{joe, here}, false},
		{tree.All, []tree.Principal{{Scheme: tree.Super}}, true},
		{tree.Admin, []tree.Principal{{Scheme: tree.X509, ID: "joe:hash"}}, false},
	} {
		if got := acl.Grants(c.wanted, c.who); got != c.grants {
			t.Errorf("%v to %v: %v", c.wanted, c.who, got)
		}
	}
	if (tree.ACL{}).Grants(tree.Read, []tree.Principal{joe}) {
		t.Error("an empty list grants")
	}
	if err := append(acl, tree.Open()...).Check(); err != nil {
		t.Error(err)
	}
	for what, g := range map[string]tree.Grant{
		"permissions: 0":      {Scheme: tree.World, ID: tree.Anyone},
		"permissions: 32":     {Permissions: 32, Scheme: tree.World, ID: tree.Anyone},
		`the id "anyone"`:     {Permissions: 1, Scheme: tree.World, ID: "all"},
		"NAME:HASH":           {Permissions: 1, Scheme: tree.Digest, ID: "joe"},
		"no network":          {Permissions: 1, Scheme: tree.IP, ID: "10.1"},
		"must be the subject": {Permissions: 1, Scheme: tree.X509},
		"must be one of":      {Permissions: 1, Scheme: tree.Super, ID: "x"},
	} {
		err := tree.ACL{g}.Check()
		if err == nil || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), "acl[0]") {
			t.Errorf("%+v: %v, want one that says %q", g, err, what)
		}
	}
	if err := make(tree.ACL, tree.MaxGrants+1).Check(); err == nil || !strings.Contains(err.Error(), "64") {
		t.Errorf("too many grants: %v", err)
	}
}

func TestRefusal(t *testing.T) {
	for want, refused := range map[string]tree.RefusedError{
		"get /a: the entry does not exist (NO_NODE)":        {Code: tree.NoNode, Verb: "get", Path: "/a"},
		"check fence /a: has no owner (NO_NODE)":            {Code: tree.NoNode, Verb: "check fence", Path: "/a", Detail: "has no owner"},
		"create: parent /a/b does not exist (NO_PARENT)":    {Code: tree.NoParent, Verb: "create", Path: "/a/b"},
		"create /a: the entry exists already (NODE_EXISTS)": {Code: tree.NodeExists, Verb: "create", Path: "/a"},
		"delete /a: has 3 children (NOT_EMPTY)":             {Code: tree.NotEmpty, Verb: "delete", Path: "/a", Detail: "has 3 children"},
		"set /a: version is 2, expected 1 (BAD_VERSION)":    {Code: tree.BadVersion, Verb: "set", Path: "/a", Detail: "version is 2, expected 1"},
		"set /a: no permission: needs w (NO_PERMISSION)":    {Code: tree.NoPermission, Verb: "set", Path: "/a", Detail: "needs w"},
		"create /a: the entry can have no children: is ephemeral (EPHEMERAL_PARENT)": {
			Code: tree.EphemeralParent, Verb: "create", Path: "/a", Detail: "is ephemeral",
		},
		"set will: it is too large (LIMIT)": {Code: tree.OverLimit, Verb: "set will", Detail: "it is too large"},
	} {
		if refused.Error() != want {
			t.Errorf("got %q, want %q", refused.Error(), want)
		}
	}
	var err error = &tree.RefusedError{Code: tree.BadVersion, Verb: "set", Path: "/a", Detail: "version is 2, expected 1"}
	has := func(code tree.Code) bool { return errors.Is(err, &tree.RefusedError{Code: code}) }
	if !has(tree.BadVersion) || has(tree.NoNode) {
		t.Error("its code is not its identity")
	}
}
