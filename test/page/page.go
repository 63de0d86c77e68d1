// Package page holds documents against the repository: links lead somewhere, and each command of docs/operations.md and
// docs/operations names the test that runs it. Tests type the commands as the pages have them.
package page

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages are the pages with commands, from a directory of a package of test/.
const pages = "../../docs/operations*"

// read returns the text of all pages.
func read(t *testing.T) string {
	t.Helper()
	var files []string
	for _, pattern := range []string{pages + ".md", pages + "/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d pages, %v", pattern, len(found), err)
		}
		files = append(files, found...)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// Page is what one test types of the pages.
type Page struct {
	t *testing.T
	// blocks are the commands of blocks, by the names in their marks; inline those in the text.
	blocks map[string]string
	inline []string
	// mine are the blocks and commands that this test must type. typed are those that it has.
	mine, typed []string
}

// Open returns the pages to a test. The test fails at its end if it has not typed everything that is claimed for it.
func Open(t *testing.T) *Page {
	t.Helper()
	text := read(t)
	p := &Page{t: t, blocks: map[string]string{}, inline: inline(text)}
	for _, b := range blocks(text) {
		p.blocks[b.name] = b.commands
	}
	for what, by := range claims() {
		if slices.Contains(by.tests, t.Name()) {
			p.mine = append(p.mine, what)
		}
	}
	slices.Sort(p.mine)
	t.Cleanup(func() {
		for _, what := range p.mine {
			if !t.Failed() && !slices.Contains(p.typed, what) {
				t.Errorf("%s has %q for this test, which did not run it", "test/page", what)
			}
		}
	})
	return p
}

// Block returns the commands of a block.
func (p *Page) Block(name string) string {
	p.t.Helper()
	if p.blocks[name] == "" {
		p.t.Fatalf("docs/operations has no block %q", name)
	}
	p.types(name)
	return p.blocks[name]
}

// Inline returns a command of the text, with words in the place of others: of "NODE", "2", and so on.
func (p *Page) Inline(command string, replacing ...string) string {
	p.t.Helper()
	if !slices.Contains(p.inline, command) {
		p.t.Fatalf("docs/operations has no command %q", command)
	}
	p.types(command)
	return strings.NewReplacer(replacing...).Replace(command)
}

func (p *Page) types(what string) {
	p.t.Helper()
	if !slices.Contains(p.mine, what) {
		p.t.Fatalf("test/page does not have %q for %s", what, p.t.Name())
	}
	p.typed = append(p.typed, what)
}

// block is one block of commands.
type block struct{ name, commands string }

// blocks returns all blocks of commands, in order. One without a mark has no name.
func blocks(text string) []block {
	var all []block
	marked := regexp.MustCompile("(?ms)(?:^ *<!-- drill: ([a-z ]+) -->\n)?^( *)```sh\n(.*?)^ *```\n")
	for _, m := range marked.FindAllStringSubmatch(text, -1) {
		var commands strings.Builder
		for line := range strings.Lines(m[3]) {
			commands.WriteString(strings.TrimPrefix(line, m[2]))
		}
		all = append(all, block{m[1], commands.String()})
	}
	return all
}

// inline returns the commands between backticks, each once, in one line.
func inline(text string) []string {
	text = regexp.MustCompile("(?ms)^ *```.*?^ *```\n").ReplaceAllString(text, "")
	program := regexp.MustCompile(`^((holdfast|node|make|docker|kubectl|systemctl|go|openssl|date|du|kill|rm|cp|mv|curl|` +
		`tar|df|journalctl|bin/[a-z]+|deploy/certificates) |df$)`)
	var all []string
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(text, -1) {
		one := strings.Join(strings.Fields(m[1]), " ")
		if program.MatchString(one) && !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	return all
}
