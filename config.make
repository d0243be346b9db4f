# nginx has no flags for C++ alone: these go to the objects of this module, and to no others.

# At -O3 g++ 12 warns of copies that overlap in its own std::string, which never happen:
# https://gcc.gnu.org/bugzilla/show_bug.cgi?id=105329. clang does not know this warning.
redis_rate_limit_warnings=
if [ "$NGX_CC_NAME" = gcc ]; then
    redis_rate_limit_warnings=-Wno-restrict
fi

for redis_rate_limit_source in $redis_rate_limit_sources; do
    redis_rate_limit_object=$(echo "$redis_rate_limit_source" |
        sed -e "s|.*/\([^/]*/[^/]*\)\.cpp$|$NGX_OBJS/addon/\1.$ngx_objext|")
    cat << END >> "$NGX_MAKEFILE"

$redis_rate_limit_object: CFLAGS += -std=c++20 -fno-exceptions -fno-rtti -fvisibility=hidden -fno-lto $redis_rate_limit_warnings -DRATE_LIMIT_DIR='"$ngx_addon_dir"' \$(REDIS_RATE_LIMIT_CFLAGS)
END
done
