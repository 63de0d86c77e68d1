package lane

import "holdfast/tree"

// nameBytes is about what a name of a whole list takes.
const nameBytes = 64

// names returns the names of all children as of one tree, however many they are. It keeps no other connection waiting.
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
