//go:build !linux

package child

import (
	"context"
	"errors"
)

// run needs Linux: there the kernel kills a program whose supervisor was killed, and gives orphans to it.
func (f *Family) run(_ context.Context, o *Options) (Ended, error) {
	return Ended{}, &StartError{o.Command, errNotLinux}
}

func (f *Family) check(context.Context, string, []string) error {
	return &StartError{"sh", errNotLinux}
}

var errNotLinux = errors.New("programs run under a hold on Linux alone")
