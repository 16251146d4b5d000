package telemetry

// linked are the histograms whose panels on the dashboards link to traces.
var linked = map[string]bool{
	MetricRequestDuration: true, MetricRequestFirstChunk: true, MetricOverhead: true, MetricWait: true,
	MetricDuration: true, MetricFirstChunk: true, MetricOperationInput: true, MetricOperationOutput: true,
	"http.server.request.duration": true,
}

// Linked tells whether a metric keeps exemplars, which lead from a point on a dashboard to a trace. Each one kept costs at
// every record, and holds the context of a request until the next export, so only those that a panel asks for are.
func Linked(metric string) bool { return linked[metric] }
