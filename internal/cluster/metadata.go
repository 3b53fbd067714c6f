package cluster

import (
	"context"
	"fmt"
	"strconv"

	"ollamoon/internal/supervise"
)

// runMetadata starts the wheel's metadata server if one is to run by itself, and
// returns when it serves.
func (c *Cluster) runMetadata(ctx context.Context) error {
	if c.config.Metadata != MetadataServer {
		return nil
	}
	log, err := c.openLog(metadataName)
	if err != nil {
		return err
	}
	c.metadata, err = c.run(metadataName, supervise.Command{
		Path: c.Python(),
		Args: []string{"-m", "mooncake.http_metadata_server", "--host", c.place(metadataName).Address, "--port", strconv.Itoa(c.ports.metadata)},
		Env:  environment(),
		Log:  log,
	})
	if err != nil {
		return err
	}
	if err := c.metadata.Ready(ctx, probeInterval, func(context.Context) error {
		return listens(c.metadata, c.ports.metadata)
	}); err != nil {
		return fmt.Errorf("waiting for the metadata server: %w", err)
	}
	return nil
}
