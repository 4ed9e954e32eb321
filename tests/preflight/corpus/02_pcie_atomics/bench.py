SOURCES = ["notify.cu"]
