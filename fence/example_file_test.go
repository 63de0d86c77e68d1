//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package fence_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"holdfast/fence"
)

// A file that several processes replace: each writes it under a lock, with the lock's token.
func ExampleFile() {
	dir, err := os.MkdirTemp("", "fence")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx, path := context.Background(), filepath.Join(dir, "routes.json")
	routes := fence.NewFile(path, 0o644)

	former, present := fence.Token(1024<<16|3), fence.Token(1030<<16|1)
	fmt.Println(routes.Write(ctx, former, []byte(`["a"]`)))
	fmt.Println(routes.Write(ctx, present, []byte(`["a", "b"]`)))
	err = routes.Write(ctx, former, []byte(`["a", "late"]`))
	if stale, ok := errors.AsType[*fence.StaleError](err); ok {
		fmt.Println(stale.Token, "is older than", stale.Newest)
	}
	content, err := os.ReadFile(path) // programs that only read need no token
	fmt.Println(string(content), err)
	// Output:
	// <nil>
	// <nil>
	// 1024.3 is older than 1030.1
	// ["a", "b"] <nil>
}
