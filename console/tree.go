package console

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/tree"
)

const (
	// shownBytes is how much of an entry's data a page shows.
	shownBytes = 64 << 10
	// writerTimeout is the timeout of the session with which the console writes.
	writerTimeout = 4 * time.Second
	// maxEntries bounds the entries that are looked at for locks, maxContenders the contenders of one.
	maxEntries, maxContenders = 1000, 1000
)

// entry is an entry of the tree with its children.
type entry struct {
	Path string
	// Up are the entries above and the entry itself.
	Up   []crumb
	Stat tree.Stat
	// Null says that the entry has no data at all. Form is text, json or hex, and Data the data in this form.
	Null       bool
	Form, Data string
	// Forms are those that the data can have. Cut says that only the beginning is shown, which cannot be edited.
	Forms []string
	Cut   bool
	// Hidden says why the data is not shown.
	Hidden   string
	Children []child
	// NoChildren says why the children are not shown.
	NoChildren string
	Next       template.URL
	ACL        []tree.Grant
	// Inherited says that the list is that of an entry above, NoACL why there is none.
	Inherited bool
	NoACL     string
}

type crumb struct{ Name, Path string }

type child struct {
	tree.Child
	Path string
}

func (c *Console) tree(q *request) (view, error) {
	path := q.FormValue("path")
	if path == "" {
		path = tree.Root
	}
	e := entry{Path: path, Up: crumbs(path)}
	t := q.caller.Tree(client.AllowStale())
	got, err := t.Get(q.ctx, path)
	switch {
	case refusal(err) == tree.NoPermission:
		e.Hidden = mayNotRead
	case err != nil:
		return view{}, err
	default:
		e.Stat, e.Null = got.Stat, got.Data == nil
		e.show(got.Data, q.FormValue("form"))
	}
	after := q.FormValue("after")
	page, err := t.ListPage(q.ctx, path, client.Listing{After: after, PageSize: pageSize, WithStat: true})
	switch {
	case refusal(err) == tree.NoPermission:
		e.NoChildren = mayNotRead
	case err != nil:
		return view{}, err
	}
	for _, one := range page.Children {
		e.Children = append(e.Children, child{one, tree.Join(path, one.Name)})
	}
	if page.More {
		e.Next = link(query([]string{"path", path, "after", page.Children[len(page.Children)-1].Name}))
	}
	if list, err := t.GetACL(q.ctx, path); err != nil {
		e.NoACL = err.Error()
	} else {
		e.ACL, e.Inherited = list.ACL, list.Inherited
	}
	return view{Page: "tree", Title: path, Follows: firstPage(after, "log"), Data: e}, nil
}

const mayNotRead = "You may not read this entry."

func crumbs(path string) []crumb {
	all := []crumb{{"/", tree.Root}}
	for i := 1; i < len(path); {
		end := strings.IndexByte(path[i:], '/')
		if end < 0 {
			end = len(path) - i
		}
		all = append(all, crumb{path[i : i+end], path[:i+end]})
		i += end + 1
	}
	return all
}

// show sets the data in the wanted form if it can have it, else in the best one.
func (e *entry) show(data []byte, wanted string) {
	isText := utf8.Valid(data) && !bytes.ContainsFunc(data, func(r rune) bool {
		return r < ' ' && r != '\n' && r != '\t' || r == 0x7f
	})
	isJSON := isText && len(bytes.TrimSpace(data)) > 0 && json.Valid(data)
	if isText {
		e.Forms = append(e.Forms, "text")
	}
	if isJSON {
		e.Forms = append(e.Forms, "json")
	}
	e.Forms = append(e.Forms, "hex")
	e.Form = e.Forms[0]
	if slices.Contains(e.Forms, wanted) {
		e.Form = wanted
	}
	if e.Cut = len(data) > shownBytes; e.Cut {
		data = data[:shownBytes]
	}
	switch e.Form {
	case "hex":
		e.Data = hexOf(data)
	case "json":
		var b bytes.Buffer
		if e.Cut || json.Indent(&b, data, "", "  ") != nil {
			b.Reset()
			b.Write(data)
		}
		e.Data = b.String()
	default:
		e.Data = strings.ToValidUTF8(string(data), "") // a cut may have split a character
	}
}

// hexOf writes 16 bytes a line.
func hexOf(data []byte) string {
	var b strings.Builder
	for line := range slices.Chunk(data, 16) {
		fmt.Fprintf(&b, "% x\n", line)
	}
	return b.String()
}

// dataOf reads the data that a person entered.
func dataOf(q *request) ([]byte, error) {
	text := strings.ReplaceAll(q.PostForm.Get("data"), "\r\n", "\n") // browsers send line ends so
	switch form := q.PostForm.Get("form"); form {
	case "hex":
		data, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
		if err != nil {
			return nil, &inputError{"data", "must be pairs of hexadecimal digits: " + err.Error()}
		}
		return data, nil
	case "json":
		if d := json.NewDecoder(strings.NewReader(text)); !oneValue(d) {
			return nil, &inputError{"data", "must be one JSON value"}
		}
		return []byte(text), nil
	case "text", "":
		return []byte(text), nil
	default:
		return nil, &inputError{"form", "must be text, json or hex"}
	}
}

func oneValue(d *json.Decoder) bool {
	var v json.RawMessage
	if d.Decode(&v) != nil {
		return false
	}
	_, err := d.Token()
	return errors.Is(err, io.EOF)
}

// writing calls do with the tree of a session that is closed afterwards.
func writing(q *request, do func(ctx context.Context, t *client.Tree) error) error {
	s, err := q.caller.Open(q.ctx, client.SessionOptions{
		Timeout: writerTimeout, Labels: map[string]string{"name": "console"},
	})
	if err != nil {
		return err
	}
	err = do(q.ctx, s.Tree())
	if closeErr := s.Close(q.ctx); err == nil && closeErr != nil {
		return fmt.Errorf("it is written, but: %w", closeErr)
	}
	return err
}

func treePage(path string) string { return "/ui/tree?" + query([]string{"path", path}) }

func (c *Console) setEntry(q *request) (act, error) {
	path := q.PostForm.Get("path")
	data, err := dataOf(q)
	if err != nil {
		return act{}, err
	}
	version, err := versionOf(q)
	if err != nil {
		return act{}, err
	}
	return act{
		Title: "Set " + path, Back: treePage(path),
		Question: fmt.Sprintf("Replace the data of %s by %d bytes?", path, len(data)),
		Consequences: []string{
			fmt.Sprintf("The write is refused if somebody else has changed the entry since: it must have version %d.", version),
		},
		do: func() (string, error) {
			return fmt.Sprintf("%s has its new data.", path), writing(q, func(ctx context.Context, t *client.Tree) error {
				_, err := t.Set(ctx, path, data, client.Version(version))
				return err
			})
		},
	}, nil
}

func versionOf(q *request) (int64, error) {
	version, err := strconv.ParseInt(q.PostForm.Get("version"), 10, 64)
	if err != nil || version < 0 {
		return 0, &inputError{"version", "must be a whole number, 0 or more"}
	}
	return version, nil
}

func (c *Console) createEntry(q *request) (act, error) {
	parent, name := q.PostForm.Get("path"), q.PostForm.Get("name")
	if name == "" || strings.Contains(name, "/") {
		return act{}, &inputError{"name", "must be one name, without a slash"}
	}
	data, err := dataOf(q)
	if err != nil {
		return act{}, err
	}
	path := tree.Join(parent, name)
	return act{
		Title: "Create " + path, Back: treePage(path),
		Question:     fmt.Sprintf("Create %s with %d bytes?", path, len(data)),
		Consequences: []string{"The entry is persistent: it stays until somebody deletes it."},
		do: func() (string, error) {
			return fmt.Sprintf("%s is there.", path), writing(q, func(ctx context.Context, t *client.Tree) error {
				_, err := t.Create(ctx, path, data, client.CreateOptions{})
				return err
			})
		},
	}, nil
}

func (c *Console) deleteEntry(q *request) (act, error) {
	path := q.PostForm.Get("path")
	version, err := versionOf(q)
	if err != nil {
		return act{}, err
	}
	return act{
		Title: "Delete " + path, Back: treePage(parentOf(path)), Question: fmt.Sprintf("Delete %s?", path),
		Consequences: []string{
			"Whoever watches it is told. A lock or a leadership that it stands for is given up.",
			fmt.Sprintf("It is refused if the entry has children, or another version than %d.", version),
		},
		do: func() (string, error) {
			return fmt.Sprintf("%s is gone.", path), writing(q, func(ctx context.Context, t *client.Tree) error {
				_, err := t.Delete(ctx, path, client.Version(version))
				return err
			})
		},
	}, nil
}

func parentOf(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return tree.Root
}

// lock is a lock, or an election, that somebody holds.
type lock struct {
	Path string
	Line []recipes.Contender
}

// lockPage is the page of the locks.
type lockPage struct {
	Root  string
	Locks []lock
	// Hidden counts the entries whose children the caller may not read: there may be locks.
	Hidden int
	// Cut says that not all entries were looked at.
	Cut bool
}

// lockRoots are where the command line has the locks and elections that are given by name.
func lockRoots() []string { return []string{"/locks", "/elections"} }

func (c *Console) locks(q *request) (view, error) {
	p := lockPage{Root: q.FormValue("root")}
	next := lockRoots()
	if p.Root != "" {
		next = []string{p.Root}
	}
	t := q.caller.Tree(client.AllowStale())
	for left := maxEntries; len(next) > 0; next = next[1:] {
		if left--; left < 0 {
			p.Cut = true
			break
		}
		page, err := t.ListPage(q.ctx, next[0], client.Listing{PageSize: maxContenders, WithData: true})
		switch {
		case refusal(err) == tree.NoNode:
			continue
		case refusal(err) == tree.NoPermission:
			p.Hidden++
			continue
		case err != nil:
			return view{}, err
		}
		p.Cut = p.Cut || page.More
		line, others := recipes.InLine(next[0], page.Children)
		if len(line) > 0 {
			p.Locks = append(p.Locks, lock{next[0], line})
		}
		for _, name := range others {
			next = append(next, tree.Join(next[0], name))
		}
	}
	return view{Page: "locks", Title: "Locks", Follows: "log", Data: p}, nil
}
