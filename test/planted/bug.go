package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// bug is one planted bug: a file of bugs/. The file begins with a paragraph that says what the bug does. Then come
//
//	shows: what the bug shows about the tests, as parseShows describes
//	catch: ./package ^TestName$ [-flag ...] [VARIABLE=value,value,...]
//	says: a regular expression
//
// The patch comes last.
type bug struct {
	name    string
	what    string
	shows   string
	catcher catcher
	changes []change
}

// catcher is the test that must fail when the bug is present.
type catcher struct {
	pkg, run string
	// flags are more flags of the test's binary.
	flags []string
	// env holds the settings of one variable. They are tried in turn until the test fails. Without a variable it is one
	// empty string.
	env []string
	// says is what a line of the failing test's output must match. A failure with another message is no catch.
	says *regexp.Regexp
}

// readBugs reads all bugs of a directory, sorted by name.
func readBugs(dir string) ([]bug, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("read bugs: no patch in %s", dir)
	}
	slices.Sort(files)
	bugs := make([]bug, len(files))
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if bugs[i], err = parseBug(string(text)); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		bugs[i].name = strings.TrimSuffix(filepath.Base(file), ".patch")
	}
	return bugs, nil
}

func parseBug(text string) (bug, error) {
	var b bug
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	begin := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "--- ") })
	if begin < 0 {
		return b, errors.New("no patch: want a diff after the head")
	}
	if err := b.parseHead(lines[:begin]); err != nil {
		return b, err
	}
	changes, err := parsePatch(lines[begin:])
	b.changes = changes
	return b, err
}

func (b *bug) parseHead(lines []string) error {
	end := slices.Index(lines, "")
	if end < 1 {
		return errors.New("no paragraph at the beginning that says what the bug does")
	}
	b.what = strings.Join(lines[:end], " ")
	values := make(map[string]string)
	for _, line := range lines[end+1:] {
		key, value, ok := strings.Cut(line, ": ")
		switch _, twice := values[key]; {
		case line == "":
			continue
		case !ok || !slices.Contains([]string{"shows", "catch", "says"}, key):
			return fmt.Errorf("%q: want a line of shows, catch or says", line)
		case twice:
			return fmt.Errorf("%q: the second line of %s", line, key)
		}
		values[key] = value
	}
	var err error
	if b.shows, err = parseShows(values["shows"]); err != nil {
		return err
	}
	if b.catcher, err = parseCatcher(values["catch"]); err != nil {
		return err
	}
	if values["says"] == "" {
		return errors.New("the says: line is missing")
	}
	b.catcher.says, err = regexp.Compile(values["says"])
	return err
}

func parseCatcher(text string) (catcher, error) {
	fields := strings.Fields(text)
	if len(fields) < 2 || !strings.HasPrefix(fields[0], "./") {
		return catcher{}, fmt.Errorf("catch: %q: want a package and a test", text)
	}
	c := catcher{pkg: fields[0], run: fields[1]}
	for _, field := range fields[2:] {
		variable, values, isVariable := strings.Cut(field, "=")
		switch {
		case strings.HasPrefix(field, "-"):
			c.flags = append(c.flags, field)
		case !isVariable || c.env != nil:
			return catcher{}, fmt.Errorf("catch: %s is neither a flag nor the only variable", field)
		default:
			for value := range strings.SplitSeq(values, ",") {
				c.env = append(c.env, variable+"="+value)
			}
		}
	}
	if c.env == nil {
		c.env = []string{""}
	}
	return c, nil
}

// test returns the package and the name of the test.
func (c *catcher) test() string {
	return c.pkg + " " + strings.NewReplacer("^", "", "$", "").Replace(c.run)
}

// String returns the test with the settings of its variable.
func (c *catcher) String() string {
	if c.env[0] == "" {
		return c.test()
	}
	variable, _, _ := strings.Cut(c.env[0], "=")
	values := make([]string, len(c.env))
	for i, setting := range c.env {
		values[i] = strings.TrimPrefix(setting, variable+"=")
	}
	return c.test() + " " + variable + "=" + strings.Join(values, ",")
}
