package export

import (
	"strings"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"

	"github.com/signalbox-llm/signalbox/telemetry"
)

// spare is the view that takes out what nobody reads: the sizes of bodies, which the HTTP conventions leave to the taste of
// each program, the SDK's counts of what begins (how many spans and records ended, were lost and were sent is told all the
// same, and each request has four spans), and the exemplars of metrics that no panel links to traces.
func spare(i sdkmetric.Instrument) (sdkmetric.Stream, bool) {
	s := sdkmetric.Stream{Name: i.Name, Description: i.Description, Unit: i.Unit}
	switch {
	case strings.HasPrefix(i.Name, "http.") && strings.HasSuffix(i.Name, ".body.size"),
		i.Name == "otel.sdk.span.live", i.Name == "otel.sdk.span.started", i.Name == "otel.sdk.log.created":
		s.Aggregation = sdkmetric.AggregationDrop{}
		return s, true
	}
	s.ExemplarReservoirProviderSelector = func(sdkmetric.Aggregation) exemplar.ReservoirProvider {
		return exemplar.FixedSizeReservoirProvider(0)
	}
	return s, !telemetry.Linked(i.Name)
}

var _ sdkmetric.View = spare
