package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
)

// Serve is the process of this project's contender: it connects to the unix
// socket of a measuring run and does what it is told until its input ends or ctx
// is done.
func Serve(ctx context.Context, socket string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("connecting to the measuring run: %w", err)
	}
	defer conn.Close() //nolint:errcheck // every answer has been read or is wanted no more
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	return serve(ctx, conn, dialMooncake)
}

func serve(ctx context.Context, conn io.ReadWriter, dial dialer) error {
	var c *client
	defer func() {
		if c != nil {
			_ = c.leave() // whoever would want to know has gone
		}
	}()
	in, out := bufio.NewReader(conn), json.NewEncoder(conn)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			return nil
		}
		var what call
		if err == nil {
			err = json.Unmarshal(line, &what)
		}
		if err != nil {
			return fmt.Errorf("reading a call: %w", err)
		}
		var got answer
		switch {
		case what.Op == opOpen && c == nil && what.Open != nil:
			if c, err = openClient(ctx, what.Open, dial); err == nil {
				got.Versions = c.store.versions
			}
		case c == nil || c.store == nil:
			err = fmt.Errorf("%s before %s", what.Op, opOpen)
		default:
			got, err = c.do(ctx, what)
		}
		if err != nil {
			got.Error = err.Error()
		}
		if err := out.Encode(got); err != nil {
			return fmt.Errorf("answering a call: %w", err)
		}
	}
}
