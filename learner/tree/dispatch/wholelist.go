package dispatch

import "holdfast/tree"

// nameBytes is the approximate memory of a name in a whole list.
const nameBytes = 64

// names returns the names of all children in one tree. It runs without the dispatcher's lock, so other connections need
// not wait.
func (j Job) names(view tree.View) (tree.Answer, error) {
	var a tree.Answer
	bounds := tree.PageBounds{Entries: tree.MaxPageEntries, Bytes: tree.MaxPageBytes}
	for {
		page, err := view.List(j.query.Path, bounds, tree.JustNames)
		if err != nil {
			return tree.Answer{}, err
		}
		for i := range page.Children {
			a.Paths = append(a.Paths, page.Children[i].Name)
		}
		if !page.More {
			a.Exists, a.Stat = true, page.Stat
			return a, nil
		}
		bounds.After = a.Paths[len(a.Paths)-1]
	}
}
