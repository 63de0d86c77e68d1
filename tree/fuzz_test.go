package tree_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"holdfast/test/fuzz/bound"
	"holdfast/tree"
)

// FuzzPath: a path is allowed exactly if it is of the form that ZooKeeper allows, and so are the paths that are made of
// it.
func FuzzPath(f *testing.F) {
	for _, path := range []string{
		"/", "", "a", "/a/b", "/a//b", "/a/", "/../a", "/a/.", "/.a/..b", "/a\x00", "/\u0080", "/\ue000", "/\uffef",
		"/\ufff0", "/\xff", strings.Repeat("/a", 255), strings.Repeat("/a", 256), "/" + strings.Repeat("a", 4095),
	} {
		f.Add(path)
	}
	form := regexp.MustCompile(`^(/[^/\x00-\x1f\x7f-\x{9f}\x{e000}-\x{f8ff}\x{fff0}-\x{10ffff}]+)+$`)
	relative := regexp.MustCompile(`/\.\.?(/|$)`)
	f.Fuzz(func(t *testing.T, path string) {
		bound.Cost{PerByte: 64, Fixed: 1 << 16}.Hold(t, len(path), func() {
			err := tree.CheckPath(path)
			want := path == "/" || len(path) <= 4096 && strings.Count(path, "/") <= 255 && utf8.ValidString(path) &&
				form.MatchString(path) && !relative.MatchString(path)
			if (err == nil) != want {
				t.Fatalf("%q: %v", path, err)
			}
			if err != nil {
				return
			}
			if parent, name := tree.Parent(path), tree.Name(path); path != "/" &&
				(tree.Join(parent, name) != path || tree.CheckPath(parent) != nil || !tree.Below(path, parent)) {
				t.Errorf("%q: parent %q, name %q", path, parent, name)
			}
			numbered := path + tree.SequenceSuffix(tree.MaxSequence)
			if (tree.CheckPrefix(path) == nil) != (len(numbered) <= 4096) || tree.Below(numbered, path) != (path == "/") {
				t.Errorf("%q as a prefix: %v", path, tree.CheckPrefix(path))
			}
			if _, err := tree.ParseQuota([]byte(path)); err == nil && !strings.Contains(path, "=") {
				t.Errorf("%q is a quota", path)
			}
		})
	})
}
