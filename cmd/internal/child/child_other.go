//go:build !linux

package child

import (
	"context"
	"errors"
)

// run needs Linux, whose kernel kills a program whose supervisor was killed, and passes orphans to the supervisor.
func (f *Family) run(_ context.Context, o *Options) (Ended, error) {
	return Ended{}, &StartError{o.Command, errNotLinux}
}

func (f *Family) check(context.Context, string, []string) error {
	return &StartError{"sh", errNotLinux}
}

var errNotLinux = errors.New("programs run under a hold on Linux alone")
