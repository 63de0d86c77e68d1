package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// change is what a patch does to one file.
type change struct {
	// file is its path from the root of the module, with slashes.
	file  string
	hunks []hunk
}

// hunk replaces lines. Both sides include the unchanged lines around the change.
type hunk struct{ before, after []string }

// parsePatch reads a unified diff of files that exist before and after it.
func parsePatch(lines []string) ([]change, error) {
	var changes []change
	for len(lines) > 0 {
		c, rest, err := parseChange(lines)
		if err != nil {
			return nil, err
		}
		changes, lines = append(changes, c), rest
	}
	if len(changes) == 0 {
		return nil, errors.New("the patch changes no file")
	}
	return changes, nil
}

func parseChange(lines []string) (c change, rest []string, err error) {
	if len(lines) < 2 {
		return c, nil, errors.New("the patch ends before +++")
	}
	from, ok := strings.CutPrefix(lines[0], "--- a/")
	if !ok {
		return c, nil, fmt.Errorf("got %q, want --- a/file", lines[0])
	}
	if to, same := strings.CutPrefix(lines[1], "+++ b/"); !same || to != from {
		return c, nil, fmt.Errorf("got %q, want +++ b/%s", lines[1], from)
	}
	c.file, lines = from, lines[2:]
	for len(lines) > 0 && strings.HasPrefix(lines[0], "@@ ") {
		var h hunk
		if h, lines, err = parseHunk(lines); err != nil {
			return c, nil, fmt.Errorf("%s: %w", c.file, err)
		}
		c.hunks = append(c.hunks, h)
	}
	if len(c.hunks) == 0 {
		return c, nil, fmt.Errorf("%s: no hunk", c.file)
	}
	return c, lines, nil
}

// parseHunk reads as many lines as the hunk's header announces, so that a diff that was cut short is refused.
func parseHunk(lines []string) (h hunk, rest []string, err error) {
	before, after, err := hunkLengths(lines[0])
	if err != nil {
		return h, nil, err
	}
	head, lines := lines[0], lines[1:]
	for len(h.before) < before || len(h.after) < after {
		if len(lines) == 0 {
			return h, nil, fmt.Errorf("%s: the hunk has fewer lines than its header says", head)
		}
		kind, text := byte(' '), ""
		if lines[0] != "" { // some editors remove the space of an empty line
			kind, text = lines[0][0], lines[0][1:]
		}
		switch kind {
		case ' ':
			h.before, h.after = append(h.before, text), append(h.after, text)
		case '-':
			h.before = append(h.before, text)
		case '+':
			h.after = append(h.after, text)
		default:
			return h, nil, fmt.Errorf("%s: line %q begins with none of space, - and +", head, lines[0])
		}
		lines = lines[1:]
	}
	if len(h.before) != before || len(h.after) != after {
		return h, nil, fmt.Errorf("%s: the hunk has %d and %d lines", head, len(h.before), len(h.after))
	}
	return h, lines, nil
}

// hunkLengths reads "@@ -from,lines +from,lines @@".
func hunkLengths(head string) (before, after int, err error) {
	fields := strings.Fields(head)
	if len(fields) < 4 || fields[0] != "@@" || fields[3] != "@@" {
		return 0, 0, fmt.Errorf("%q is not a hunk header", head)
	}
	lengths := [2]int{1, 1} // a length of 1 may be omitted
	for i, sign := range []string{"-", "+"} {
		place, ok := strings.CutPrefix(fields[1+i], sign)
		if !ok {
			return 0, 0, fmt.Errorf("%q is not a hunk header", head)
		}
		if _, length, given := strings.Cut(place, ","); given {
			if lengths[i], err = strconv.Atoi(length); err != nil {
				return 0, 0, fmt.Errorf("%q is not a hunk header: %w", head, err)
			}
		}
	}
	return lengths[0], lengths[1], nil
}

// apply returns source with the change made. Every line that a hunk keeps or removes must be in the file exactly, and
// at one place only. The diff's line numbers are ignored, so that a change elsewhere in the file does not break the
// patch.
func (c *change) apply(source string) (string, error) {
	lines := strings.Split(source, "\n")
	for i, h := range c.hunks {
		at, n := find(lines, h.before)
		if n != 1 {
			return "", fmt.Errorf("hunk %d fits %d places of %s, want 1: it begins with %q", i+1, n, c.file,
				first(h.before))
		}
		lines = slices.Replace(lines, at, at+len(h.before), h.after...)
	}
	return strings.Join(lines, "\n"), nil
}

// find returns the last place of block in lines, and the number of places.
func find(lines, block []string) (at, n int) {
	if len(block) == 0 {
		return 0, 0
	}
	for i := range len(lines) - len(block) + 1 {
		if slices.Equal(lines[i:i+len(block)], block) {
			at, n = i, n+1
		}
	}
	return at, n
}

func first(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return lines[0]
}
