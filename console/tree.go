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
	// maxEntries bounds the entries that are searched for locks, maxContenders the contenders of a lock.
	maxEntries, maxContenders = 1000, 1000
)

// entry is an entry of the tree with its children.
type entry struct {
	Path string
	// Crumbs are the ancestors and the entry itself.
	Crumbs []crumb
	Stat   tree.Stat
	// NoData reports that the entry has no data at all. Format is text, json or hex, and Data the data in this format.
	NoData       bool
	Format, Data string
	// Formats are the possible formats of the data. Truncated: only the beginning is shown, which cannot be edited.
	Formats   []string
	Truncated bool
	// Hidden says why the data is not shown.
	Hidden   string
	Children []child
	// NoChildren says why the children are not shown.
	NoChildren string
	Next       template.URL
	ACL        []tree.Grant
	// Inherited reports that an ancestor has the access list. NoACL says why there is none.
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
	e := entry{Path: path, Crumbs: crumbs(path)}
	t := q.caller.Tree(client.AllowStale())
	got, err := t.Get(q.ctx, path)
	switch {
	case refusedCode(err) == tree.NoPermission:
		e.Hidden = noReadPermission
	case err != nil:
		return view{}, err
	default:
		e.Stat, e.NoData = got.Stat, got.Data == nil
		e.show(got.Data, q.FormValue("format"))
	}
	after := q.FormValue("after")
	page, err := t.ListPage(q.ctx, path, client.Listing{After: after, PageSize: pageSize, WithStat: true})
	switch {
	case refusedCode(err) == tree.NoPermission:
		e.NoChildren = noReadPermission
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
	return view{Page: "tree", Title: path, ReloadOn: reloadFirstPage(after, "log"), Data: e}, nil
}

const noReadPermission = "You have no permission to read this entry."

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

// show sets the data in the requested format if possible, else in the best format.
func (e *entry) show(data []byte, wanted string) {
	isText := utf8.Valid(data) && !bytes.ContainsFunc(data, func(r rune) bool {
		return r < ' ' && r != '\n' && r != '\t' || r == 0x7f
	})
	isJSON := isText && len(bytes.TrimSpace(data)) > 0 && json.Valid(data)
	if isText {
		e.Formats = append(e.Formats, "text")
	}
	if isJSON {
		e.Formats = append(e.Formats, "json")
	}
	e.Formats = append(e.Formats, "hex")
	e.Format = e.Formats[0]
	if slices.Contains(e.Formats, wanted) {
		e.Format = wanted
	}
	if e.Truncated = len(data) > shownBytes; e.Truncated {
		data = data[:shownBytes]
	}
	switch e.Format {
	case "hex":
		e.Data = hexOf(data)
	case "json":
		var b bytes.Buffer
		if e.Truncated || json.Indent(&b, data, "", "  ") != nil {
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
	text := strings.ReplaceAll(q.PostForm.Get("data"), "\r\n", "\n") // browsers send line ends like this
	switch form := q.PostForm.Get("format"); form {
	case "hex":
		data, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
		if err != nil {
			return nil, &inputError{"data", "must be pairs of hexadecimal digits: " + err.Error()}
		}
		return data, nil
	case "json":
		if d := json.NewDecoder(strings.NewReader(text)); !isOneValue(d) {
			return nil, &inputError{"data", "must be one JSON value"}
		}
		return []byte(text), nil
	case "text", "":
		return []byte(text), nil
	default:
		return nil, &inputError{"format", "must be text, json or hex"}
	}
}

func isOneValue(d *json.Decoder) bool {
	var v json.RawMessage
	if d.Decode(&v) != nil {
		return false
	}
	_, err := d.Token()
	return errors.Is(err, io.EOF)
}

// withSession calls do with the tree of a new session, which it closes afterwards.
func withSession(q *request, do func(ctx context.Context, t *client.Tree) error) error {
	s, err := q.caller.Open(q.ctx, client.SessionOptions{
		Timeout: writerTimeout, Labels: map[string]string{"name": "console"},
	})
	if err != nil {
		return err
	}
	err = do(q.ctx, s.Tree())
	if closeErr := s.Close(q.ctx); err == nil && closeErr != nil {
		return fmt.Errorf("the write succeeded, but closing its session failed: %w", closeErr)
	}
	return err
}

func treePage(path string) string { return "/ui/tree?" + query([]string{"path", path}) }

func (c *Console) setEntry(q *request) (action, error) {
	path := q.PostForm.Get("path")
	data, err := dataOf(q)
	if err != nil {
		return action{}, err
	}
	version, err := versionOf(q)
	if err != nil {
		return action{}, err
	}
	return action{
		Title: "Set " + path, Back: treePage(path),
		Question: fmt.Sprintf("Replace the data of %s with %d bytes?", path, len(data)),
		Consequences: []string{
			fmt.Sprintf("The write is refused if another client has changed the entry: it must still have version %d.", version),
		},
		run: func() (string, error) {
			return fmt.Sprintf("The data of %s was set.", path), withSession(q, func(ctx context.Context, t *client.Tree) error {
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

func (c *Console) createEntry(q *request) (action, error) {
	parent, name := q.PostForm.Get("path"), q.PostForm.Get("name")
	if name == "" || strings.Contains(name, "/") {
		return action{}, &inputError{"name", "must be one name, without a slash"}
	}
	data, err := dataOf(q)
	if err != nil {
		return action{}, err
	}
	path := tree.Join(parent, name)
	return action{
		Title: "Create " + path, Back: treePage(path),
		Question:     fmt.Sprintf("Create %s with %d bytes?", path, len(data)),
		Consequences: []string{"The entry is persistent: it stays until it is deleted."},
		run: func() (string, error) {
			return fmt.Sprintf("%s was created.", path), withSession(q, func(ctx context.Context, t *client.Tree) error {
				_, err := t.Create(ctx, path, data, client.CreateOptions{})
				return err
			})
		},
	}, nil
}

func (c *Console) deleteEntry(q *request) (action, error) {
	path := q.PostForm.Get("path")
	version, err := versionOf(q)
	if err != nil {
		return action{}, err
	}
	return action{
		Title: "Delete " + path, Back: treePage(parentOf(path)), Question: fmt.Sprintf("Delete %s?", path),
		Consequences: []string{
			"Its watchers get an event. If the entry belongs to a lock or an election, its holder or waiter loses its place.",
			fmt.Sprintf("The delete is refused if the entry has children, or a version other than %d.", version),
		},
		run: func() (string, error) {
			return fmt.Sprintf("%s was deleted.", path), withSession(q, func(ctx context.Context, t *client.Tree) error {
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

// lock is a lock or an election with a holder.
type lock struct {
	Path       string
	Contenders []recipes.Contender
}

// lockState describes a contender. A caller without read permission does not learn whether the first contender holds
// the lock or its session has expired.
func lockState(c recipes.Contender) string {
	switch {
	case c.State == recipes.Waits:
		return "waits"
	case c.Hidden:
		return "holds or lock-delay"
	case c.State == recipes.Holds:
		return "holds"
	default:
		return "lock-delay"
	}
}

// lockPage is the page of locks.
type lockPage struct {
	Root  string
	Locks []lock
	// Hidden counts the entries whose children the caller may not read; they may have locks.
	Hidden int
	// Truncated: some entries were not searched.
	Truncated bool
}

// lockRoots are the entries above the command line's named locks and elections.
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
			p.Truncated = true
			break
		}
		page, err := t.ListPage(q.ctx, next[0], client.Listing{PageSize: maxContenders, WithData: true})
		switch {
		case refusedCode(err) == tree.NoNode:
			continue
		case refusedCode(err) == tree.NoPermission:
			p.Hidden++
			continue
		case err != nil:
			return view{}, err
		}
		p.Truncated = p.Truncated || page.More
		line, others := recipes.Contenders(next[0], page.Children)
		if len(line) > 0 {
			p.Locks = append(p.Locks, lock{next[0], line})
		}
		for _, name := range others {
			next = append(next, tree.Join(next[0], name))
		}
	}
	return view{Page: "locks", Title: "Locks", ReloadOn: "log", Data: p}, nil
}
