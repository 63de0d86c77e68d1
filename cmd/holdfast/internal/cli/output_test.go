package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"

	"holdfast/session"
	"holdfast/session/words"
)

// hostile has a terminal title, a bell, a carriage return, a control sequence of C1, a line feed, a tab, and a mark
// that reverses the text after it.
const hostile = "\x1b]0;owned\x07\rx\u009b2J\ny\tz\u202e"

// obeyed returns the first character that a terminal would obey instead of showing it. It ignores the bold of headers.
func obeyed(text string) (rune, bool) {
	for _, r := range strings.NewReplacer("\x1b[1m", "", "\x1b[m", "").Replace(text) {
		if r != '\n' && !unicode.IsPrint(r) {
			return r, true
		}
	}
	return 0, false
}

// Labels may hold any text. Control characters are escaped, and no label hides or forges other labels or rows.
func TestLabelsDoNotReachTheTerminalAsTheyAre(t *testing.T) {
	for _, tt := range []struct{ key, value, want string }{
		{"a", "x y ü 日本", "a=x y ü 日本,other=shown"},
		{"a", "x=y", "a=x=y,other=shown"},
		{"a", hostile, `a="\x1b]0;owned\a\rx\u009b2J\ny\tz\u202e",other=shown`},
		{"a\n", "", `"a\n"=,other=shown`},
		{"a", "x,other=forged", `a="x,other=forged",other=shown`},
		{"a=b", `"`, `"a=b"="\"",other=shown`},
	} {
		labels, err := session.NewLabels(map[string]string{tt.key: tt.value, "other": "shown"})
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{
			"list": Table([]string{"ID", "LABELS"}, [][]string{{"0x01", words.Labels(labels)}}),
			"show": Properties([][]string{{"id", "0x01"}, {"labels", words.Labels(labels)}}),
		} {
			if lines := strings.Split(text, "\n"); len(lines) != 2 || !strings.HasSuffix(lines[1], "  "+tt.want) {
				t.Errorf("%s of %q: got %q, want %s at the end", name, tt.value, text, tt.want)
			}
		}
	}
}

// Text from nodes is escaped too: roles, versions, addresses, errors.
func TestTextOfNodesIsEscapedForTheTerminal(t *testing.T) {
	var out bytes.Buffer
	if err := writeJSON(&out, map[string]string{hostile: hostile}, ""); err != nil {
		t.Fatal(err)
	}
	var back map[string]string
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back[hostile] != hostile {
		t.Errorf("JSON reads as %q (%v), want what was written", back, err)
	}
	for name, text := range map[string]string{
		"cell":     Table([]string{"VERSION"}, [][]string{{hostile}, {"next"}}),
		"property": Properties([][]string{{"version", hostile}, {"x", "next"}}),
		"error":    OneLine(errors.New(hostile)),
	} {
		if r, ok := obeyed(text); ok || !strings.Contains(text, `\x1b]0;owned`) {
			t.Errorf("%s: %q has %q in it", name, text, r)
		}
	}
	if i := strings.IndexFunc(out.String(), func(r rune) bool { return r != '\n' && unicode.IsControl(r) }); i >= 0 {
		t.Errorf("JSON: %q has a control character", out.String())
	}
}

func TestBytesText(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0B", 1: "1B", 1023: "1023B", 1024: "1K", 1535: "1.4K", 1536: "1.5K", 1<<20 - 1: "1023.9K",
		1 << 20: "1M", 2 << 30: "2G", 5 << 39: "2.5T", 1 << 60: "1048576T",
	} {
		if got := words.Bytes(n); got != want {
			t.Errorf("%d bytes read %q, want %q", n, got, want)
		}
	}
	if got := UsedOf(3, 0, words.Bytes); got != "3B" {
		t.Errorf("3 of no bound reads %q, want 3B", got)
	}
}

// binary is data that a terminal may not get unescaped.
const binary = "\x00\xff\xfe" + hostile + "\n"

// No data changes a terminal, and none is lost where no person reads it.
func TestDataDoesNotReachTheTerminalAsItIs(t *testing.T) {
	var out bytes.Buffer
	p := &Printer{Stdout: &out, terminal: true}
	if err := p.PrintData([]byte(binary)); err != nil {
		t.Fatal(err)
	}
	want := `\x00\xff\xfe\x1b]0;owned\a\rx\u009b2J` + "\ny\tz" + `\u202e` + "\n"
	if got := out.String(); got != want {
		t.Errorf("a terminal gets %q, want %q", got, want)
	}
	out.Reset()
	p.terminal = false
	if err := p.PrintData([]byte(binary)); err != nil || out.String() != binary {
		t.Errorf("a pipe gets %q, %v", out.String(), err)
	}
}
