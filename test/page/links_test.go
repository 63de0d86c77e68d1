package page

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the top of the repository.
const root = "../.."

// walk calls visit for each file of the repository that git may have.
func walk(t *testing.T, visit func(path string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "bin" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".."):
			return fs.SkipDir
		case !d.IsDir():
			visit(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// readDocuments returns the documents by path.
func readDocuments(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	walk(t, func(path string) {
		if filepath.Ext(path) != ".md" {
			return
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[path] = string(text)
	})
	return all
}

// Every file of Go or of protocol buffers that a document names with a folder exists. A document may leave out the
// first folders.
func TestFilesThatDocumentsName(t *testing.T) {
	var files []string
	walk(t, func(path string) { files = append(files, path) })
	names := 0
	for path, text := range readDocuments(t) {
		for _, found := range regexp.MustCompile("`([\\w.-]+/[\\w./-]+\\.(?:go|proto))`").FindAllStringSubmatch(text, -1) {
			names++
			if !slices.ContainsFunc(files, func(f string) bool { return strings.HasSuffix(f, "/"+found[1]) }) {
				t.Errorf("%s names %s: no such file", path, found[1])
			}
		}
	}
	if names < 60 {
		t.Errorf("found %d names: this test does not see them", names)
	}
}

// A table's separator is a line of its own, with a header of as many cells above it: a reflowed table is unreadable.
func TestTables(t *testing.T) {
	separator := regexp.MustCompile(`\|\s*:?-{3,}:?\s*\|`)
	tables := 0
	for path, text := range readDocuments(t) {
		before := ""
		for line := range strings.Lines(text) {
			if separator.MatchString(line) {
				tables++
				if strings.Trim(line, " |-:\n") != "" || strings.Count(line, "|") > strings.Count(before, "|") {
					t.Errorf("%s has a broken table: %s", path, line)
				}
			}
			before = line
		}
	}
	if tables < 50 {
		t.Errorf("found %d tables: this test does not see them", tables)
	}
}

// Every link from one document to another leads to a file and a heading that exist.
func TestLinks(t *testing.T) {
	code := regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	documents := readDocuments(t)
	for path, text := range documents {
		documents[path] = code.ReplaceAllString(text, "")
	}
	links := 0
	for path, text := range documents {
		for _, found := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(text, -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			links++
			file, anchor, _ := strings.Cut(found[1], "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", path, found[1], err)
			} else if other, ok := documents[target]; ok && anchor != "" && !anchors(other)[anchor] {
				t.Errorf("%s links to %s: no such heading", path, found[1])
			}
		}
	}
	if links < 100 {
		t.Errorf("found %d links: this test does not see them", links)
	}
}

// anchors returns the anchors of a document's headings, as GitHub makes them.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		heading := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(found[1], "$1")
		heading = regexp.MustCompile(`[^\pL\pN_ -]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
		all[strings.ReplaceAll(heading, " ", "-")] = true
	}
	return all
}
