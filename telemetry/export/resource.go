package export

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/signalbox-llm/signalbox/telemetry"
)

// describe says who reports. Arguments of the command line are left out, since they may hold secrets. Where a key is given
// twice, the later one counts: defaults, the OTEL_ variables, the configuration, the contract.
func describe(ctx context.Context, c Config) (*resource.Resource, error) {
	ours := []attribute.KeyValue{attribute.String(telemetry.ContractKey, telemetry.ContractVersion)}
	if c.ServiceName != "" {
		ours = append(ours, attribute.String("service.name", c.ServiceName))
	}
	defaults := []attribute.KeyValue{attribute.String("service.name", defaultService)}
	if c.Version != "" {
		defaults = append(defaults, attribute.String("service.version", c.Version))
	}
	return resource.New(ctx,
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithOSType(), resource.WithProcessPID(),
		resource.WithProcessExecutableName(), resource.WithProcessRuntimeName(), resource.WithProcessRuntimeVersion(),
		resource.WithService(), resource.WithAttributes(defaults...), resource.WithFromEnv(), resource.WithAttributes(ours...))
}
