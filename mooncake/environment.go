package mooncake

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// ConfigFromEnvironment returns the Config that Mooncake's own clients take
// from the environment: from the JSON file that MOONCAKE_CONFIG_PATH names, or,
// without it, from MOONCAKE_MASTER (host:port, required),
// MOONCAKE_TE_META_DATA_SERVER (P2PHANDSHAKE if unset), MOONCAKE_PROTOCOL (tcp)
// and MOONCAKE_TENANT_ID (default). The file has these as
// master_server_address and metadata_server, both required, protocol and
// tenant_id. Fields and variables for what a client without a segment does not
// have are left alone.
//
// getenv is os.Getenv or what stands for it. An error says which file or
// variable has to change; most wrap ErrArgument.
func ConfigFromEnvironment(getenv func(string) string) (Config, error) {
	if path := getenv("MOONCAKE_CONFIG_PATH"); path != "" {
		return configFromFile(path)
	}
	config := Config{
		Master:   getenv("MOONCAKE_MASTER"),
		Metadata: getenv("MOONCAKE_TE_META_DATA_SERVER"),
		Protocol: protocolName(getenv("MOONCAKE_PROTOCOL")),
		Tenant:   getenv("MOONCAKE_TENANT_ID"),
	}
	if config.Master == "" {
		return Config{}, fmt.Errorf("%w: neither MOONCAKE_CONFIG_PATH nor MOONCAKE_MASTER is set", ErrArgument)
	}
	if config.Metadata == "" {
		config.Metadata = p2pHandshake
	}
	return config, nil
}

func configFromFile(path string) (Config, error) {
	data, err := os.ReadFile(path) //nolint:gosec // the user names the file
	if err != nil {
		return Config{}, fmt.Errorf("mooncake: MOONCAKE_CONFIG_PATH: %w", err)
	}
	var file struct {
		Master   string `json:"master_server_address"`
		Metadata string `json:"metadata_server"`
		Protocol string `json:"protocol"`
		Tenant   string `json:"tenant_id"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return Config{}, fmt.Errorf("%w: MOONCAKE_CONFIG_PATH %s: %w", ErrArgument, path, err)
	}
	for field, value := range map[string]string{"master_server_address": file.Master, "metadata_server": file.Metadata} {
		if strings.TrimSpace(value) == "" {
			return Config{}, fmt.Errorf("%w: MOONCAKE_CONFIG_PATH %s: %s is missing or empty", ErrArgument, path, field)
		}
	}
	return Config{Master: file.Master, Metadata: file.Metadata, Protocol: protocolName(file.Protocol), Tenant: file.Tenant}, nil
}

// protocolName is a protocol as Mooncake's own clients read it: any case.
func protocolName(name string) string { return strings.ToLower(strings.TrimSpace(name)) }
