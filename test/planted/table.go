package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// The tables in bugs/README.md stand between these lines.
const (
	tableBegins = "<!-- The tables are written by \"go run ./test/planted -write\". -->\n"
	tableEnds   = "<!-- The tables end here. -->\n"
)

// table returns the bugs as a table in Markdown, sorted by what they show.
func table(bugs []bug) string {
	var t strings.Builder
	t.WriteString("\n| shows | bug | what it does | caught by |\n|---|---|---|---|\n")
	cell := strings.NewReplacer("|", `\|`)
	for _, b := range slices.SortedFunc(slices.Values(bugs), byShows) {
		fmt.Fprintf(&t, "| %s | %s | %s | %s |\n", b.shows, b.name, cell.Replace(b.what), cell.Replace(b.catcher.test()))
	}
	t.WriteString("\nThe kinds of defects, and what escaped:\n\n| kind | |\n|---|---|\n")
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Fprintf(&t, "| %s | %s |\n", kind, kinds[kind])
	}
	t.WriteString("\n")
	return t.String()
}

var errNoTable = errors.New("find the tables: the lines around them are missing")

// withTable returns a text with the tables in their place.
func withTable(text string, bugs []bug) (string, error) {
	before, rest, ok := strings.Cut(text, tableBegins)
	if !ok {
		return "", errNoTable
	}
	_, after, ok := strings.Cut(rest, tableEnds)
	if !ok {
		return "", errNoTable
	}
	return before + tableBegins + table(bugs) + tableEnds + after, nil
}

func writeTable(file string, bugs []bug) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	with, err := withTable(string(text), bugs)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(with), 0o600)
}
