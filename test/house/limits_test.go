package house

import (
	"fmt"
	"go/constant"
	"maps"
	"math/big"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/node/config"
)

// docs/limits.md says of each limit what the source says.
//
// The table filled names the constants and the tests of each row. The second cell of the row has their values, and no
// other number but the default of the setting that the row is about: such a row has the word "default". The first cell
// has the names that settings and errors have.
//
// Pages with faults are compared too: each kind of fault is found.
func TestLimits(t *testing.T) {
	text, err := os.ReadFile(root + "/docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	page, s, all := string(text), read(t), settings(t)
	for _, problem := range compare(page, s, all, filled) {
		t.Error("docs/limits.md: " + problem)
	}
	for _, c := range []struct{ former, latter, want string }{
		{"10,000 conditions", "9,999 conditions", "tree.MaxOps is 10000"},
		{"10,000 conditions", "10,000 conditions, 3 s", `"3 s" is no constant`},
		{"| default 2,000,000", "| 2,000,000", "max_sessions is a setting: say its default"},
		{"| default 2,000,000", "| default 3,000,000", "max_sessions has the default 2000000"},
		{"| `max_sessions` |", "| `most_sessions` |", "most_sessions is in no error and no setting"},
		{"| `max_snapshots` |", "| a copy |", "max_snapshots is a limit in an error and in no table"},
		{"| labels |", "| label |", "label: no row of the table filled"},
		{"| labels |", "| label |", "labels: no row of docs/limits.md"},
		{"| labels |", "| kill |", "kill: two rows"},
		{"10,000 conditions", "10,000 | conditions", "has 5 cells"},
	} {
		changed := strings.Replace(page, c.former, c.latter, 1)
		problems := compare(changed, s, all, filled)
		if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, c.want) }) {
			t.Errorf("%q instead of %q is found to be %q, want %q", c.latter, c.former, problems, c.want)
		}
	}
	for _, c := range []struct{ row, constants, tests, want string }{
		{"labels", "session.MostLabels", "session.TestLabels", "no constant session.MostLabels"},
		{"labels", "session.MaxLabels", "session.TestNothing", "no test session.TestNothing"},
		{"labels", "session.MaxLabels", "", "labels: no test reaches it"},
		{"labels", "", "session.TestLabels", "session.MaxLabels looks like a limit"},
		{"labels", "session.MaxLabels zk/operations.limit", "session.TestLabels", "zk/operations.limit is in a table and in noLimits"},
	} {
		changed := maps.Clone(filled)
		changed[c.row] = struct{ constants, tests string }{c.constants, c.tests}
		problems := compare(page, s, all, changed)
		if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, c.want) }) {
			t.Errorf("%s with %q and %q is found to be %q, want %q", c.row, c.constants, c.tests, problems, c.want)
		}
	}
}

// setting is a row of the table of settings.
type setting struct{ fallback string }

// settings returns the settings of a node by their names.
func settings(t *testing.T) map[string]setting {
	t.Helper()
	all := map[string]setting{}
	for line := range strings.Lines(config.Reference()) {
		if c := cells(line); len(c) > 2 && strings.HasPrefix(c[0], "`") {
			all[strings.Trim(c[0], "`")] = setting{strings.Trim(c[1], "`")}
		}
	}
	if all["max_sessions"].fallback == "" {
		t.Fatalf("%d settings: this is not their table", len(all))
	}
	return all
}

// row is a row of a table of limits.
type row struct {
	name, limit string
	// names are those of settings and errors.
	names []string
	// code are the constants of the row, tests those that reach its limit.
	code, tests []string
}

var (
	quoted = regexp.MustCompile("`([^`]+)`")
	isWord = regexp.MustCompile(`^[a-z0-9_]+$`)
)

// columns are those of each table of limits.
const columns = 4

// rowsOf returns the rows of the tables whose first column is "limit".
func rowsOf(page string) (all []row, problems []string) {
	within := false
	for line := range strings.Lines(page) {
		c := cells(line)
		if len(c) == 0 || c[0] == "limit" {
			within = len(c) > 0
			continue
		}
		if !within || strings.HasPrefix(c[0], "---") {
			continue
		}
		if len(c) != columns {
			problems = append(problems, fmt.Sprintf("%q has %d cells, want %d", c[0], len(c), columns))
			continue
		}
		r := row{name: c[0], limit: c[1]}
		for _, q := range quoted.FindAllStringSubmatch(c[0], -1) {
			if isWord.MatchString(q[1]) {
				r.names = append(r.names, q[1])
			}
		}
		all = append(all, r)
	}
	if len(all) == 0 {
		problems = append(problems, "no rows")
	}
	return all, problems
}

// cells returns the cells of a line of a table, none of another line.
func cells(line string) []string {
	line, ok := strings.CutPrefix(strings.TrimSpace(line), "|")
	if !ok {
		return nil
	}
	all := strings.Split(strings.TrimSuffix(line, "|"), "|")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}

// compare returns what is wrong with a page of limits.
func compare(
	page string, s *source, all map[string]setting, filled map[string]struct{ constants, tests string },
) []string {
	rows, problems := rowsOf(page)
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	told, listed, named := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, r := range rows {
		of, ok := filled[r.name]
		switch {
		case named[r.name]:
			add("%s: two rows", r.name)
		case !ok:
			add("%s: no row of the table filled", r.name)
		case of.tests == "":
			add("%s: no test reaches it", r.name)
		}
		named[r.name] = true
		r.code, r.tests = strings.Fields(of.constants), strings.Fields(of.tests)
		for _, name := range r.names {
			told[name] = true
		}
		for _, name := range r.code {
			listed[name] = true
		}
		r.compare(s, all, add)
	}
	for _, name := range slices.Sorted(maps.Keys(filled)) {
		if !named[name] {
			add("%s: no row of docs/limits.md", name)
		}
	}
	noLimit := map[string]bool{}
	for _, group := range noLimits {
		for name := range strings.FieldsSeq(group.names) {
			noLimit[name] = true
			switch {
			case s.constants[name] == nil:
				add("there is no constant %s, which noLimits has", name)
			case listed[name]:
				add("%s is in a table and in noLimits", name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.constants)) {
		if s.bounds[name] && !listed[name] && !noLimit[name] {
			add("%s looks like a limit, and is in no table: add a row, or add it to noLimits if nobody can meet it", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if defaultOf(all[name]).value != nil && !told[name] && !slices.Contains(noLimitSettings, name) {
			add("%s is a setting and in no table", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.refusals)) {
		if !told[name] {
			add("%s is a limit in an error and in no table", name)
		}
	}
	return problems
}

// compare tells what is wrong with a row.
func (r *row) compare(s *source, all map[string]setting, add func(format string, args ...any)) {
	said := numbersIn(r.limit)
	known := make([]bool, len(said))
	find := func(v number) bool {
		found := false
		for i := range said {
			if said[i].equals(v) {
				known[i], found = true, true
			}
		}
		return found
	}
	isSetting := strings.Contains(r.limit, "default")
	for _, name := range r.names {
		of, ok := all[name]
		switch {
		case !ok && !s.texts[name] && !s.texts[strings.TrimSuffix(strings.TrimPrefix(name, "max_"), "_per_second")]:
			add("%s: %s is in no error and no setting", r.name, name)
		case ok && !isSetting:
			add("%s: %s is a setting: say its default", r.name, name)
		case ok && !find(defaultOf(of)):
			add("%s: %s has the default %s", r.name, name, of.fallback)
		}
	}
	for _, name := range r.code {
		v := s.constants[name]
		switch {
		case v == nil:
			add("%s: there is no constant %s", r.name, name)
		case !find(number{value: rational(v), time: s.durations[name]}):
			add("%s: %s is %v, and %q does not say so", r.name, name, v, r.limit)
		}
	}
	for i, n := range said {
		if !known[i] {
			add("%s: %q is no constant of the row: name it in the table filled", r.name, n.text)
		}
	}
	for _, name := range r.tests {
		if !s.tests[name] {
			add("%s: there is no test %s", r.name, name)
		}
	}
}

func defaultOf(s setting) number {
	if v, ok := new(big.Rat).SetString(s.fallback); ok {
		return number{value: v}
	}
	if d, err := time.ParseDuration(s.fallback); err == nil {
		return number{value: new(big.Rat).SetInt64(int64(d)), time: true}
	}
	return number{} // no number equals it
}

// number is one in a text, or a constant.
type number struct {
	text  string
	value *big.Rat
	// time says that value is in nanoseconds, percent that a share of 0.5 is 50 as well.
	time, percent bool
}

func (n number) equals(c number) bool {
	if c.value == nil || n.time != c.time {
		return false
	}
	share := new(big.Rat).Quo(n.value, big.NewRat(100, 1))
	return n.value.Cmp(c.value) == 0 || n.percent && share.Cmp(c.value) == 0
}

var numeral = regexp.MustCompile(
	`(\d[\d,]*(?:\.\d+)?)(?:\^(\d+))?(?: - (\d))?(?: (KiB|MiB|GiB|TiB|ms|s|min|h|days?|%))?(?:$|[^\w])`)

var (
	sizes = map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
	times = map[string]time.Duration{
		"ms": time.Millisecond, "s": time.Second, "min": time.Minute, "h": time.Hour, "day": 24 * time.Hour,
		"days": 24 * time.Hour,
	}
)

// numbersIn returns the numbers of a text: 10,000 or 2^47 - 1, with a unit or none.
func numbersIn(text string) (all []number) {
	for _, m := range numeral.FindAllStringSubmatch(text, -1) {
		n := number{text: strings.TrimRight(m[0], " .,;:)"), percent: m[4] == "%"}
		n.value, _ = new(big.Rat).SetString(strings.ReplaceAll(strings.TrimRight(m[1], ","), ",", ""))
		if m[2] != "" {
			power, _ := new(big.Int).SetString(m[2], 10)
			n.value.SetInt(new(big.Int).Exp(n.value.Num(), power, nil))
		}
		if less, ok := new(big.Rat).SetString(m[3]); ok {
			n.value.Sub(n.value, less)
		}
		if size := sizes[m[4]]; size != 0 {
			n.value.Mul(n.value, big.NewRat(size, 1))
		}
		if d := times[m[4]]; d != 0 {
			n.value.Mul(n.value, big.NewRat(int64(d), 1))
			n.time = true
		}
		all = append(all, n)
	}
	return all
}

// rational is the value of a constant.
func rational(v constant.Value) *big.Rat {
	r, ok := new(big.Rat).SetString(v.ExactString())
	if !ok {
		panic("no number: " + v.ExactString())
	}
	return r
}
