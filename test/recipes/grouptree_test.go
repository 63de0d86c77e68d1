package recipes

import (
	"context"
	"errors"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/session"
	"holdfast/test/whole"
)

// TestGroupOfATree: a group is at the path of its tree, for observers and for members, whatever the chroot of the
// session's client is.
func TestGroupOfATree(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		ctx := context.Background()
		plain := c.Client("app")
		defer plain.Close()
		within, err := client.New(client.Config{
			ConnectString: c.Names[0] + ":7400/app", Dial: c.Host("within").Dial,
		})
		if err != nil {
			c.T.Fatal(err)
		}
		defer within.Close()
		all := c.Session(plain, 10*time.Second)
		some, err := within.Open(ctx, client.SessionOptions{Timeout: 10 * time.Second})
		if err != nil {
			c.T.Fatal(err)
		}
		of := func(in *client.Tree, path string) *client.Tree {
			below, wrong := in.Chroot(path)
			if wrong != nil {
				c.T.Fatal(wrong)
			}
			return below
		}
		g := recipes.NewGroup(of(plain.Tree(), "/app/web"), "/members")
		v, err := g.View(ctx)
		if err != nil {
			c.T.Fatal(err)
		}
		defer v.Close()
		if _, err = g.Join(ctx, all, recipes.Member{ID: "one"}); err != nil {
			c.T.Error(err)
		}
		if _, err = g.Join(ctx, some, recipes.Member{ID: "two"}); err != nil {
			c.T.Error(err)
		}
		three := recipes.NewGroup(of(within.Tree(), "/web"), "/members")
		if _, err = three.Join(ctx, some, recipes.Member{ID: "three"}); err != nil {
			c.T.Error(err)
		}
		until(c, v, "[one  passing] [three  passing] [two  passing]")
		_, err = recipes.NewGroup(of(plain.Tree(), "/apple"), "/members").Join(ctx, some, recipes.Member{ID: "four"})
		if field, ok := errors.AsType[*session.FieldError](err); !ok || field.Field != "tree" {
			c.T.Errorf("outside of the chroot: %v", err)
		}
	})
}
