#include "serve/http/response_head.h"

#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/serializer.hpp>

namespace weft::serve {

namespace http = boost::beast::http;
using boost::system::error_code;

std::string SerialiseHead(const HttpResponse& response, const HeadForm& form) {
  http::response<http::empty_body> message;
  message.version(form.version);
  message.result(static_cast<unsigned>(response.status));
  message.set(http::field::server, "weft");
  if (!response.content_type.empty()) message.set(http::field::content_type, response.content_type);
  for (const auto& [name, value] : response.headers) message.insert(name, value);
  if (!form.streamed) {
    if (response.status != 204 && response.status >= 200)
      message.content_length(response.body.size());
  } else if (form.version != 10) {
    message.chunked(true);
  }
  message.keep_alive(form.keep_alive);
  http::response_serializer<http::empty_body> serializer(message);
  serializer.split(true);
  std::string out;
  error_code error;
  while (!serializer.is_header_done()) {
    serializer.next(error, [&](error_code& e, const auto& buffers) {
      e = {};
      size_t bytes = 0;
      for (const auto& buffer : boost::beast::buffers_range_ref(buffers)) {
        out.append(static_cast<const char*>(buffer.data()), buffer.size());
        bytes += buffer.size();
      }
      serializer.consume(bytes);
    });
    if (error) break;
  }
  return out;
}

}  // namespace weft::serve
