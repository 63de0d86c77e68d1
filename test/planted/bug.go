package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// bug is one planted bug: a file of bugs/. The file begins with a paragraph that says what the bug does. Then come
//
//	from: the defects of other systems and the rules of docs/protocol.md or docs/tree.md that it stands for
//	breaks: the invariants that it breaks
//	catch: ./package ^TestName$ [-flag ...] [VARIABLE=value,value,...]
//	says: a regular expression
//
// with a pair of catch and says for each test that catches it, the fastest first. The patch comes last. For a bug that
// the simulation does not see, or cannot see (0 seeds), a line takes the place of the simulation's pair:
//
//	unseen: 40 seeds: why not
type bug struct {
	name         string
	what         string
	from, breaks string
	catchers     []catcher
	// blind is why the simulation does not see the bug, empty if the file does not say. unseen is how many seeds, from
	// 1 on, were tried without seeing it.
	blind   string
	unseen  int
	changes []change
}

// simulation is the package of the tests that run whole clusters.
const simulation = "./test/sim"

// simulated reports whether a test of the simulation catches the bug.
func (b *bug) simulated() bool {
	return slices.ContainsFunc(b.catchers, func(c catcher) bool { return c.pkg == simulation })
}

// catcher is a test that fails when the bug is present.
type catcher struct {
	pkg, run string
	// flags are more flags of the test's binary.
	flags []string
	// env holds the settings of one variable. They are tried one after the other until the test fails. Without a
	// variable it is one empty string.
	env []string
	// says is what a line of the failing test's output must match. A test that fails for another reason catches
	// nothing.
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
	for _, line := range lines[end+1:] {
		if line == "" {
			continue
		}
		if err := b.parseLine(line); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
	}
	switch {
	case b.from == "" || b.breaks == "":
		return errors.New("the from: or breaks: line is missing")
	case len(b.catchers) == 0:
		return errors.New("no catch: line")
	case b.blind != "" && b.simulated():
		return errors.New("a catch: line names the simulation, and an unseen: line says it does not see the bug")
	}
	for _, c := range b.catchers {
		if c.says == nil {
			return fmt.Errorf("the says: line of %s is missing", c.run)
		}
	}
	return nil
}

func (b *bug) parseLine(line string) error {
	key, value, _ := strings.Cut(line, ": ")
	switch key {
	case "from":
		b.from = value
	case "breaks":
		b.breaks = value
	case "catch":
		c, err := parseCatcher(value)
		if err != nil {
			return err
		}
		b.catchers = append(b.catchers, c)
	case "says":
		if len(b.catchers) == 0 || b.catchers[len(b.catchers)-1].says != nil {
			return errors.New("no catch: line before it")
		}
		says, err := regexp.Compile(value)
		if err != nil {
			return err
		}
		b.catchers[len(b.catchers)-1].says = says
	case "unseen":
		return b.parseUnseen(value)
	default:
		return errors.New("not a line of from, breaks, catch, says or unseen")
	}
	return nil
}

func (b *bug) parseUnseen(text string) error {
	seeds, why, _ := strings.Cut(text, " seeds: ")
	n, err := strconv.Atoi(seeds)
	if err != nil || n < 0 || why == "" {
		return errors.New(`want "number seeds: why"`)
	}
	b.unseen, b.blind = n, why
	return nil
}

func parseCatcher(text string) (catcher, error) {
	fields := strings.Fields(text)
	if len(fields) < 2 || !strings.HasPrefix(fields[0], "./") {
		return catcher{}, errors.New("want a package and a test")
	}
	c := catcher{pkg: fields[0], run: fields[1]}
	for _, field := range fields[2:] {
		variable, values, isVariable := strings.Cut(field, "=")
		switch {
		case strings.HasPrefix(field, "-"):
			c.flags = append(c.flags, field)
		case !isVariable || c.env != nil:
			return catcher{}, fmt.Errorf("%s is neither a flag nor the only variable", field)
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

// String returns the test with the settings of its variable.
func (c *catcher) String() string {
	name := strings.NewReplacer("^", "", "$", "").Replace(c.run)
	if c.env[0] == "" {
		return c.pkg + " " + name
	}
	variable, _, _ := strings.Cut(c.env[0], "=")
	values := make([]string, len(c.env))
	for i, setting := range c.env {
		values[i] = strings.TrimPrefix(setting, variable+"=")
	}
	return c.pkg + " " + name + " " + variable + "=" + strings.Join(values, ",")
}
