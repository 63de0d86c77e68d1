package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/session"
	"holdfast/tree"
)

func (c *treeCommands) treeTransact() *cobra.Command {
	cmd := &cobra.Command{
		Use: "txn FILE|-", Short: "Carry out several operations on the tree, all or none",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("%q takes one FILE, or - for the standard input", cmd.CommandPath())
			}
			return nil
		},
		Long: `Carry out several operations on the tree, all or none. If all conditions hold, the operations
before the line "else" are carried out, otherwise those after it. Each line of FILE is one of

  if PATH exists|missing
  if PATH version|owner|created|modified|children =|!=|<|> VALUE
  create PATH [DATA]        create-sequential PATH [DATA]
  set PATH DATA [VERSION]   delete PATH [VERSION]
  check PATH [VERSION]      delete-tree PATH
  else

Words with spaces or bytes that are not printable are in double quotes, as "a b\x00". Lines that
begin with # are comments. The exit code is 1 if an operation was refused: then none had an
effect.

A FILE that begins with { is JSON, with the same words:

  {"if": [{"path": "/a", "property": "version", "is": "=", "value": 3}],
   "then": [{"op": "set", "path": "/a", "text": "x"},
            {"op": "create", "path": "/b/", "data": "AP8=", "sequential": true, "ttl": "1h",
             "acl": ["world:anyone:r"]}],
   "else": [{"op": "delete", "path": "/b", "version": 7}]}

"data" is in base64. The properties "exists" and "missing" have no "is" and no "value". Only JSON
has "sequential", "parents", "container", "ttl" and "acl" of create, and the operation "acl".

` + writeHelp,
		Example: `  holdfast txn - <<'END'
  if /app/config version = 3
  set /app/config "threads = 8"
  create /app/changed
  END`,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := textGiven(cmd.Context(), args[0], c.stdin)
			if err != nil {
				return err
			}
			parse := parseTransaction
			if strings.HasPrefix(strings.TrimSpace(string(text)), "{") {
				parse = parseJSONTransaction
			}
			x, err := parse(string(text))
			if err != nil {
				return err
			}
			return c.transact(cmd.Context(), x)
		},
	}
	return c.ofTree(cmd)
}

// maxText bounds the text of a transaction: as base64 or with escapes, what a write may hold takes up to six times as
// much.
const maxText = 8 * tree.MaxRequest

// textGiven reads a file, or with - the standard input.
func textGiven(ctx context.Context, name string, stdin io.Reader) ([]byte, error) {
	from := stdin
	if name == "-" {
		name = "standard input"
	} else {
		file, err := os.Open(name)
		if err != nil {
			return nil, usageError{err}
		}
		defer func() { _ = file.Close() }() // it is open for reading only
		from = file
	}
	text, err := readUpTo(ctx, maxText, name, from)
	if err == nil && len(text) > maxText {
		err = usage("%s has more than %d bytes: no transaction needs as many", name, maxText)
	}
	return text, err
}

// outcomeView is what became of a transaction, in JSON.
type outcomeView struct {
	Stamp string `json:"stamp"`
	// Else says that a condition did not hold.
	Else    bool         `json:"else"`
	Results []resultView `json:"results"`
}

type resultView struct {
	Operation string `json:"operation"`
	Path      string `json:"path"`
	Removed   int    `json:"removed,omitempty"`
}

func (c *treeCommands) transact(ctx context.Context, x tree.Transaction) error {
	return c.writing(ctx, func(ctx context.Context, t *client.Tree) error {
		done, err := limited(ctx, c.target, func(ctx context.Context) (client.Transacted, error) {
			return t.Transact(ctx, x)
		})
		if err != nil {
			return err
		}
		v := outcomeView{Stamp: done.Stamp.String(), Else: done.Outcome.Else, Results: []resultView{}}
		ran, lines := x.Then, []string{"all conditions hold"}
		if v.Else {
			ran, lines = x.Else, []string{"a condition does not hold"}
		}
		for i, op := range done.Outcome.Ops[:min(len(done.Outcome.Ops), len(ran))] {
			r := resultView{Operation: ran[i].Verb(), Path: ran[i].Target(), Removed: op.Removed}
			if op.Path != "" {
				r.Path = op.Path
			}
			v.Results = append(v.Results, r)
			lines = append(lines, r.Operation+" "+escaped(r.Path))
		}
		return c.out.print(v, func() string { return strings.Join(lines, "\n") })
	})
}

// parseTransaction reads the lines of a transaction. A usage error names the line.
func parseTransaction(text string) (tree.Transaction, error) {
	var x tree.Transaction
	ops := &x.Then
	number := 0
	for line := range strings.Lines(text) {
		number++
		words, err := wordsOf(line)
		switch {
		case err != nil:
		case len(words) == 0:
			continue
		case words[0] == "else" && len(words) == 1 && ops == &x.Then:
			ops = &x.Else
			continue
		case words[0] == "if":
			var condition tree.Condition
			condition, err = parseCondition(words[1:])
			x.If = append(x.If, condition)
		default:
			var op tree.Op
			op, err = parseOp(words[0], words[1:])
			*ops = append(*ops, op)
		}
		if err != nil {
			return tree.Transaction{}, usage("line %d: %w", number, err)
		}
	}
	if err := x.Check(); err != nil {
		return tree.Transaction{}, usageError{err}
	}
	return x, nil
}

// wordsOf splits a line at spaces. Words in double quotes are strings of Go.
func wordsOf(line string) (words []string, err error) {
	rest := strings.TrimSpace(line)
	if strings.HasPrefix(rest, "#") {
		return nil, nil
	}
	for rest != "" {
		word := rest
		if rest[0] == '"' {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return nil, fmt.Errorf("quotes do not end, or have a bad escape: %q", rest)
			}
			if word, err = strconv.Unquote(quoted); err != nil {
				return nil, err
			}
			rest = rest[len(quoted):]
		} else {
			if end := strings.IndexAny(rest, " \t"); end >= 0 {
				word = rest[:end]
			}
			rest = rest[len(word):]
		}
		words = append(words, word)
		rest = strings.TrimLeft(rest, " \t")
	}
	return words, nil
}

// parseCondition reads the words of a condition after "if".
func parseCondition(words []string) (tree.Condition, error) {
	form := fmt.Errorf("condition %q: want PATH exists|missing, or PATH PROPERTY =|!=|<|> VALUE", words)
	if len(words) == 2 && (words[1] == "exists" || words[1] == "missing") {
		c := tree.Condition{Path: words[0], Property: tree.Exists, Is: tree.Equal}
		if words[1] == "exists" {
			c.Value = 1
		}
		return c, nil
	}
	if len(words) != 4 {
		return tree.Condition{}, form
	}
	property := map[string]tree.Property{
		"version": tree.DataVersion, "owner": tree.OwnerID, "created": tree.CreatedStamp,
		"modified": tree.ModifiedStamp, "children": tree.ChildCount,
	}[words[1]]
	is := map[string]tree.Comparison{"=": tree.Equal, "!=": tree.NotEqual, "<": tree.Less, ">": tree.Greater}[words[2]]
	if property == 0 || is == 0 {
		return tree.Condition{}, form
	}
	value, err := parseValue(property, words[3])
	return tree.Condition{Path: words[0], Property: property, Is: is, Value: value}, err
}

// parseValue reads what a property is compared with: a session id, a stamp or a number.
func parseValue(p tree.Property, word string) (uint64, error) {
	switch p {
	case tree.OwnerID:
		id, err := session.ParseID(word)
		return uint64(id), err
	case tree.CreatedStamp, tree.ModifiedStamp:
		stamp, err := tree.ParseStamp(word)
		return uint64(stamp), err
	case tree.Exists, tree.DataVersion, tree.ChildCount:
	}
	n, err := strconv.ParseUint(word, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("value %q: want a whole number", word)
	}
	return n, nil
}

// parseOp reads an operation from its verb and the words behind it.
func parseOp(verb string, words []string) (tree.Op, error) {
	form, known := map[string]struct{ least, most, version int }{
		"create": {1, 2, -1}, "create-sequential": {1, 2, -1}, "set": {2, 3, 2}, "delete": {1, 2, 1},
		"check": {1, 2, 1}, "delete-tree": {1, 1, -1},
	}[verb]
	if !known {
		return nil, fmt.Errorf("%q: want if, else, create, create-sequential, set, delete, check or delete-tree", verb)
	}
	if len(words) < form.least || len(words) > form.most {
		return nil, fmt.Errorf("%s takes %d to %d words, not %d", verb, form.least, form.most, len(words))
	}
	version := int64(tree.Any)
	if form.version >= 0 && len(words) > form.version {
		n, err := strconv.ParseInt(words[form.version], 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("version %q: want a whole number", words[form.version])
		}
		version = n
	}
	path := words[0]
	switch verb {
	case "set":
		return tree.Set{Path: path, Data: []byte(words[1]), Version: version}, nil
	case "delete":
		return tree.Delete{Path: path, Version: version}, nil
	case "check":
		return tree.Check{Path: path, Version: version}, nil
	case "delete-tree":
		return tree.DeleteTree{Path: path}, nil
	}
	create := tree.Create{Path: path, Sequential: verb == "create-sequential", Kind: tree.Persistent}
	if len(words) > 1 {
		create.Data = []byte(words[1])
	}
	return create, nil
}
