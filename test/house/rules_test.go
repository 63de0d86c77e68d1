package house

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A comment that cites a rule in brackets, such as (T5), gives its name the first time in a file: (T5 a touch moves the
// deadline). So a reader needs no other page to follow. Comments behind code may be too short for a name.
func TestRulesAreNamedWhereTheyAreCited(t *testing.T) {
	names := ruleNames(t)
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "bin" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".."):
			return fs.SkipDir
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, ".pb.go"):
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		for _, rule := range unnamed(string(source), names) {
			t.Errorf("%s: the first comment that cites %s does not name it: write (%s %s)", path, rule, rule, names[rule])
		}
		for _, cited := range misnamed(string(source), names) {
			t.Errorf("%s: (%s) is another name than the rule's in docs: %s", path, cited, names[cited[:strings.Index(cited, " ")]])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(names) < 120 || files < 500 {
		t.Errorf("%d names of rules and %d files: this test does not see them", len(names), files)
	}
	for source, want := range map[string]string{
		"// Moved (T5).\n": "[T5]",
		"// Moved (T5 a touch moves\n// the deadline, T1).\n":     "[T1]",
		"// Moved (T5 a touch moves the deadline), again (T5).\n": "[]",
		"//\tqueue  answered (T5)\n":                              "[]",
	} {
		if got := fmt.Sprint(unnamed(source, names)); got != want {
			t.Errorf("%q: %v, want %s", source, got, want)
		}
	}
}

// ruleNames returns the names of rules and invariants as documents have them, without the capital of a sentence.
func ruleNames(t *testing.T) map[string]string {
	t.Helper()
	names := map[string]string{}
	for _, page := range []string{"protocol", "tree", "zookeeper"} {
		text, err := os.ReadFile(filepath.Join(root, "docs", page+".md"))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^- \*\*([A-Z]\d+)\*\* \*([^*]+?)\.?\*`).FindAllStringSubmatch(string(text), -1) {
			names[m[1]] = lower(strings.Join(strings.Fields(m[2]), " "))
		}
		for _, m := range regexp.MustCompile(`(?m)^\| \*\*(I\d+)\*\* ([^|]+?) \|`).FindAllStringSubmatch(string(text), -1) {
			names[m[1]] = lower(m[2])
		}
	}
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`\*\*(I\d) ([^*]+)\*\*`).FindAllStringSubmatch(string(text), -1) {
		names[m[1]] = m[2]
	}
	return names
}

// lower makes the first letter of a name small, unless the first word has more capitals.
func lower(name string) string {
	if len(name) > 1 && name[1] >= 'A' && name[1] <= 'Z' {
		return name
	}
	return strings.ToLower(name[:1]) + name[1:]
}

var (
	cited   = regexp.MustCompile(`\(((?:[A-Z]\d+[^(),]*, )*[A-Z]\d+)[,)]`)
	worded  = regexp.MustCompile(`\(((?:[A-Z]\d+[^(),]*, )*[A-Z]\d+ [^(),]*)[,)]`)
	ranges  = regexp.MustCompile(`^(to [A-Z]\d|with )`)
	ruleOf  = regexp.MustCompile(`^[A-Z]\d+$`)
	wrapped = regexp.MustCompile(`\s*\n\s*//\s*`)
	comment = regexp.MustCompile(`^\s*// ?([^\t].*)?$`)
)

// commentsOf returns the text of the comments in a source that have lines of their own.
func commentsOf(source string) string {
	var text strings.Builder
	for line := range strings.Lines(source) {
		if m := comment.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
			text.WriteString(" " + strings.TrimSpace(m[1]))
		}
	}
	return text.String()
}

// misnamed returns what comments cite as a rule and its name when the words are not the rule's name. A name with a comma
// may be cut there.
func misnamed(source string, names map[string]string) (wrong []string) {
	for _, m := range worded.FindAllStringSubmatch(commentsOf(source), -1) {
		for one := range strings.SplitSeq(m[1], ", ") {
			rule, words, _ := strings.Cut(one, " ")
			name, is := names[rule]
			if is && ruleOf.MatchString(rule) && words != "" && !strings.HasPrefix(words, name) &&
				!strings.HasPrefix(name, words+",") && !ranges.MatchString(words) {
				wrong = append(wrong, one)
			}
		}
	}
	return wrong
}

// unnamed returns the rules that comments of a source cite and no comment names.
func unnamed(source string, names map[string]string) []string {
	all, missing := commentsOf(source), []string(nil)
	joined := wrapped.ReplaceAllString(source, " ")
	for _, m := range cited.FindAllStringSubmatch(all, -1) {
		for one := range strings.SplitSeq(m[1], ", ") {
			if name, is := names[one]; is && ruleOf.MatchString(one) && !strings.Contains(joined, one+" "+name) {
				missing = append(missing, one)
			}
		}
	}
	return missing
}
