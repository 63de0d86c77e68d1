// Package page has the commands of docs/operations.md, and says which test runs each. Tests type what the page says:
// a command that changes there is another one in its test.
package page

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// path is the page, from a directory of a package of test/.
const path = "../../docs/operations.md"

// Page is what one test types of the page.
type Page struct {
	t *testing.T
	// blocks are the commands of blocks, by the names in their marks; inline those in the text.
	blocks map[string]string
	inline []string
	// mine are the blocks and commands that this test must type. typed are those that it has.
	mine, typed []string
}

// Open returns the page to a test. The test fails at its end if it has not typed everything that is claimed for it.
func Open(t *testing.T) *Page {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p := &Page{t: t, blocks: map[string]string{}}
	for _, b := range blocks(string(text)) {
		p.blocks[b.name] = b.commands
	}
	p.inline = inline(string(text))
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
		p.t.Fatalf("docs/operations.md has no block %q", name)
	}
	p.types(name)
	return p.blocks[name]
}

// Inline returns a command of the text, with words in the place of others: of "NODE", "2", and so on.
func (p *Page) Inline(command string, replacing ...string) string {
	p.t.Helper()
	if !slices.Contains(p.inline, command) {
		p.t.Fatalf("docs/operations.md has no command %q", command)
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

// inline returns the commands between backticks, each once, in one line. The table of metrics has none.
func inline(text string) []string {
	text = regexp.MustCompile(`(?s)<!-- metrics: begin.*?<!-- metrics: end -->`).ReplaceAllString(text, "")
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
