package tree

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/session"
	"holdfast/tree"
)

func newTxn(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "txn FILE|-", Short: "Run a transaction on the tree",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usage("%q accepts one FILE, or - for the standard input", cmd.CommandPath())
			}
			return nil
		},
		Long: `Run several operations on the tree in a transaction: all or none take effect. FILE is JSON: if all
conditions of "if" hold, the operations of "then" run, otherwise the operations of "else". Each of
the three is optional.

  {"if": [{"path": "/a", "property": "version", "is": "=", "value": 3}],
   "then": [{"op": "set", "path": "/a", "text": "x"},
            {"op": "create", "path": "/b/", "data": "AP8=", "sequential": true, "ttl": "1h",
             "acl": ["world:anyone:r"]}],
   "else": [{"op": "delete", "path": "/b", "version": 7}]}

A "property" is version, owner, created, modified or children, compared with =, !=, < or >; or it is
exists or missing, without "is" and "value". The fields of an "op" besides "path":

  create       text or data, acl, sequential, parents, and ttl or container
  set          text or data, version
  delete       version
  delete-tree
  acl          acl, version
  check        version

"text" is the data as text, "data" is in base64. When an operation is refused, the exit code is 1
and no operation takes effect.

` + cli.WriteHelp,
		Example: `  holdfast txn - <<'END'
  {"if": [{"path": "/app/config", "property": "version", "is": "=", "value": 3}],
   "then": [{"op": "set", "path": "/app/config", "text": "threads = 8"},
            {"op": "create", "path": "/app/changed"}]}
  END`,
		RunE: cli.Run(env, &cli.NoFlags{}, runTxn),
	}
	return cmd
}

func runTxn(ctx context.Context, env *cli.Env, _ *cli.NoFlags, args []string) error {
	text, err := readTransaction(ctx, args[0], env.Stdin)
	if err != nil {
		return err
	}
	x, err := parseTransaction(text)
	if err != nil {
		return err
	}
	return transact(ctx, env, x)
}

// maxText bounds the text of a transaction: JSON escapes make the content of a write up to six times as long.
const maxText = 8 * tree.MaxRequest

// readTransaction reads a file, or the standard input for -.
func readTransaction(ctx context.Context, name string, stdin io.Reader) ([]byte, error) {
	from := stdin
	if name == "-" {
		name = "standard input"
	} else {
		file, err := os.Open(name)
		if err != nil {
			return nil, cli.Usage("%w", err)
		}
		defer func() { _ = file.Close() }() // opened for reading only
		from = file
	}
	text, err := readUpTo(ctx, maxText, name, from)
	if err == nil && len(text) > maxText {
		err = cli.Usage("%s has more than %d bytes: no transaction needs as many", name, maxText)
	}
	return text, err
}

// outcomeView is the outcome of a transaction, in JSON.
type outcomeView struct {
	Stamp string `json:"stamp"`
	// Else reports that a condition did not hold.
	Else    bool         `json:"else"`
	Results []resultView `json:"results"`
}

type resultView struct {
	Operation string `json:"operation"`
	Path      string `json:"path"`
	Removed   int    `json:"removed,omitempty"`
}

func transact(ctx context.Context, env *cli.Env, x tree.Transaction) error {
	return env.Write(ctx, func(ctx context.Context, t *client.Tree) error {
		done, err := cli.Timed(ctx, env.Cluster, func(ctx context.Context) (client.Transacted, error) {
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
			lines = append(lines, r.Operation+" "+cli.Escape(r.Path))
		}
		return env.Out.Print(v, func() string { return strings.Join(lines, "\n") })
	})
}

// jsonTransaction is a transaction as users write it in JSON.
type jsonTransaction struct {
	If   []jsonCondition `json:"if"`
	Then []jsonOp        `json:"then"`
	Else []jsonOp        `json:"else"`
}

type jsonCondition struct {
	Path     string    `json:"path"`
	Property string    `json:"property"`
	Is       string    `json:"is"`
	Value    *jsonWord `json:"value"`
}

// jsonOp is an operation: each has some of the fields.
type jsonOp struct {
	Op   string `json:"op"`
	Path string `json:"path"`
	// Data is base64, Text plain text: at most one of them.
	Data    *[]byte `json:"data"`
	Text    *string `json:"text"`
	Version *int64  `json:"version"`

	Sequential bool     `json:"sequential"`
	Parents    bool     `json:"parents"`
	Container  bool     `json:"container"`
	TTL        string   `json:"ttl"`
	ACL        []string `json:"acl"`
}

// jsonWord is a string or a number.
type jsonWord string

// UnmarshalJSON implements [json.Unmarshaler].
func (w *jsonWord) UnmarshalJSON(b []byte) error {
	var number json.Number
	if err := json.Unmarshal(b, &number); err == nil {
		*w = jsonWord(number)
		return nil
	}
	return json.Unmarshal(b, (*string)(w))
}

// parseTransaction reads a transaction in JSON. Its errors are about usage.
func parseTransaction(text []byte) (tree.Transaction, error) {
	var given jsonTransaction
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&given); err != nil {
		return tree.Transaction{}, cli.Usage("transaction: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return tree.Transaction{}, cli.Usage("transaction: more follows its end")
	}
	var x tree.Transaction
	for i, one := range given.If {
		c, err := one.parse()
		if err != nil {
			return tree.Transaction{}, cli.Usage("if[%d]: %w", i, err)
		}
		x.If = append(x.If, c)
	}
	for _, of := range []struct {
		name  string
		given []jsonOp
		ops   *[]tree.Op
	}{{"then", given.Then, &x.Then}, {"else", given.Else, &x.Else}} {
		for i := range of.given {
			op, err := of.given[i].parse()
			if err != nil {
				return tree.Transaction{}, cli.Usage("%s[%d]: %w", of.name, i, err)
			}
			*of.ops = append(*of.ops, op)
		}
	}
	if err := x.Check(); err != nil {
		return tree.Transaction{}, cli.Usage("%w", err)
	}
	return x, nil
}

// parse returns the condition.
func (c *jsonCondition) parse() (tree.Condition, error) {
	if c.Property == "exists" || c.Property == "missing" {
		if c.Is != "" || c.Value != nil {
			return tree.Condition{}, fmt.Errorf("property %q has no is and no value", c.Property)
		}
		there := tree.Condition{Path: c.Path, Property: tree.Exists, Is: tree.Equal}
		if c.Property == "exists" {
			there.Value = 1
		}
		return there, nil
	}
	property := map[string]tree.Property{
		"version": tree.DataVersion, "owner": tree.OwnerID, "created": tree.CreatedStamp,
		"modified": tree.ModifiedStamp, "children": tree.ChildCount,
	}[c.Property]
	is := map[string]tree.Comparison{
		"=": tree.Equal, "!=": tree.NotEqual, "<": tree.Less, ">": tree.Greater,
	}[c.Is]
	switch {
	case property == 0:
		return tree.Condition{}, fmt.Errorf(
			"property %q: want exists, missing, version, owner, created, modified or children", c.Property)
	case is == 0:
		return tree.Condition{}, fmt.Errorf("is %q: want =, !=, < or >", c.Is)
	case c.Value == nil:
		return tree.Condition{}, fmt.Errorf("property %q: want a value", c.Property)
	}
	value, err := parseValue(property, string(*c.Value))
	return tree.Condition{Path: c.Path, Property: property, Is: is, Value: value}, err
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

// parse returns the operation. A field that the operation does not have is an error.
func (o *jsonOp) parse() (tree.Op, error) {
	version := int64(tree.Any)
	if o.Version != nil {
		if version = *o.Version; version < 0 {
			return nil, fmt.Errorf("version %d: want 0 or more", version)
		}
	}
	if err := o.fits(); err != nil {
		return nil, err
	}
	data := o.data()
	switch o.Op {
	case "create":
		return o.create(data)
	case "set":
		return tree.Set{Path: o.Path, Data: data, Version: version}, nil
	case "delete":
		return tree.Delete{Path: o.Path, Version: version}, nil
	case "check":
		return tree.Check{Path: o.Path, Version: version}, nil
	case "delete-tree":
		return tree.DeleteTree{Path: o.Path}, nil
	case "acl":
		acl, err := parseGrants(o.ACL)
		return tree.SetACL{Path: o.Path, ACL: acl, Version: version}, err
	default:
		return nil, o.unknown()
	}
}

// fits refuses an unknown operation, and a field that the operation does not have.
func (o *jsonOp) fits() error {
	fields, known := map[string]string{
		"create": "data acl new", "set": "data version", "delete": "version", "check": "version", "delete-tree": "",
		"acl": "version acl",
	}[o.Op]
	if !known {
		return o.unknown()
	}
	for field, given := range map[string]bool{
		"data": o.Data != nil || o.Text != nil, "version": o.Version != nil, "acl": o.ACL != nil,
		"new": o.Sequential || o.Parents || o.Container || o.TTL != "",
	} {
		if given && !strings.Contains(fields, field) {
			return fmt.Errorf("op %q has no such field: want only path %s", o.Op, strings.Replace(fields, "new",
				"sequential parents container ttl", 1))
		}
	}
	if o.Data != nil && o.Text != nil {
		return errors.New("want data or text, not both")
	}
	return nil
}

func (o *jsonOp) unknown() error {
	return fmt.Errorf("op %q: want create, set, delete, check, delete-tree or acl", o.Op)
}

// data returns the data of the operation; nil for none.
func (o *jsonOp) data() []byte {
	switch {
	case o.Data != nil:
		return *o.Data
	case o.Text != nil:
		return []byte(*o.Text)
	default:
		return nil
	}
}

func (o *jsonOp) create(data []byte) (tree.Op, error) {
	create := tree.Create{
		Path: o.Path, Sequential: o.Sequential, Parents: o.Parents, Data: data, Kind: tree.Persistent,
	}
	var err error
	switch {
	case o.Container && o.TTL != "":
		return nil, errors.New("want container or ttl, not both")
	case o.Container:
		create.Kind = tree.Container
	case o.TTL != "":
		create.Kind = tree.Expiring
		if create.TTL, err = time.ParseDuration(o.TTL); err != nil {
			return nil, fmt.Errorf("ttl %q: want a duration such as 90s", o.TTL)
		}
	}
	create.ACL, err = parseGrants(o.ACL)
	return create, err
}
