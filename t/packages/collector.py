"""Collects spans, as OpenTelemetry's collector does, and prints the attributes of each as a line of JSON.

The first line is the port, of 127.0.0.1.
"""

import json
import threading
from concurrent import futures

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc


class TraceService(trace_service_pb2_grpc.TraceServiceServicer):
    def Export(self, request, context):
        for of_resource in request.resource_spans:
            for of_scope in of_resource.scope_spans:
                for span in of_scope.spans:
                    print(json.dumps({each.key: each.value.string_value for each in span.attributes}), flush=True)
        return trace_service_pb2.ExportTraceServiceResponse()


server = grpc.server(futures.ThreadPoolExecutor())
trace_service_pb2_grpc.add_TraceServiceServicer_to_server(TraceService(), server)
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
threading.Event().wait()
